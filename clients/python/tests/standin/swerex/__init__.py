"""A stand-in for the package swe-rex, which the machines of our tests have not: the public interface that rex_rpc.swerex
implements, written by us from its documentation. It does nothing by itself.
"""
