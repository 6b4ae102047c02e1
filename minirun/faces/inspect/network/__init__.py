"""What networks are made of in the kernel, and why a packet arrives, or does not.

facts       links, addresses, routes and rules, and how they differ from minirun's records
passages    what a packet meets between networks, and to and from other hosts
inside      what a container's namespaces say: who listens, hosts, resolv.conf
why         one packet's way, step by step, and the first thing that stops it
routing     which way the kernel sends a packet, and what sends it elsewhere
walls       which rules a packet meets: the host, family bridge, the container
ways        the ways: into a container by a published port, and out of it
way_to      the way to one host and port
steps       single steps, which several ways have
"""
