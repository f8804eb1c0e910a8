"""A stand-in for the package openhands, which the machines of our tests have not: what rex_rpc.openhands needs of its public
classes, written by us from its documentation.
"""
