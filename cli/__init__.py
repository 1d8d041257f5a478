"""Commands: parse, call, print. The only room that prints."""
