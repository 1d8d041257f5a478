"""The plug-in's process; the engine starts it through `pulumi-resource-megatok`."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an engine that ends at once interrupts us while we still import

from infra.engine.serve import serve  # noqa: E402
from infra.provider.group import NodeGroups  # noqa: E402

serve(NodeGroups())
