"""The plug-in's process; the engine starts it through `pulumi-resource-megatok`."""

from infra.engine.serve import serve
from infra.provider.group import NodeGroups

serve(NodeGroups())
