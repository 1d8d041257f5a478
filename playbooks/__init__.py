"""Fabric: all work on nodes. `fab -c playbooks --list`, from the checkout, shows what can be done alone."""

import sys
from pathlib import Path

# `fab` puts this folder on the path, not the one that holds the rooms.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from playbooks.tasks import ns

__all__ = ["ns"]
