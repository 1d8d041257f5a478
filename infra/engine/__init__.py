"""Everything that touches Pulumi's engine, and all use of Pulumi's private API: pinned, and held by a contract test."""

from __future__ import annotations

from infra.engine.settings import environment

__all__ = ["environment"]
