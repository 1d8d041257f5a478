"""The plug-in that serves `NodeGroup`: each create is reserved and on record before a cloud is called."""
