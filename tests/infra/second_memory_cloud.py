"""A place for a second cloud in memory."""

from tests.infra.memory_cloud import MemoryCloud

CLOUD = MemoryCloud()
