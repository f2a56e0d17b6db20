"""The embedded stack: real MySQL, Kafka and Connect as child processes, in one deletable folder.

``artefacts`` fetches and verifies what ``connect/artefacts.lock.json`` pins, ``java`` and
``libaio`` find what the machine has, ``process`` keeps one child, ``mysql``, ``kafka`` and
``connect`` each say how their part is configured, started and known to be healthy, and ``stack``
puts the three together.
"""
