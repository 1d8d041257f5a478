"""A small simulated cloud whose nodes are real SSH servers on loopback; it imports nothing of the other rooms.

`__main__` starts it, `server` speaks HTTP, `fleet` holds the nodes, `boot` lays one out, `supervisor` is the process a
node hangs on, `meter` is the bill, `faults` makes it fail on demand.
"""
