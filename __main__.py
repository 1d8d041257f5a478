"""What `pulumi up` runs: stack config -> recipe -> one `NodeGroup` a node -> the inventory as the stack's output."""

import pulumi

from infra.nodegroup import inventory, stand_up
from infra.settings import StackSettings
from spec import load
from spec.errors import MegatokError

try:
    settings = StackSettings.of(pulumi.get_stack(), pulumi.Config().get)
    cluster = load.cluster(settings.recipe)
    pulumi.export("inventory", inventory(settings, cluster, stand_up(settings, cluster)))
except MegatokError as error:
    raise pulumi.RunError(f"{type(error).__name__}: {error}") from None
