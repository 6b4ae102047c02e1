"""What networks are made of in the kernel.

facts       links, addresses, routes and rules, and how they differ from minirun's records
ruleset     the rules of nftables: in words, and what they do with one packet
inside      what a container's namespaces say: who listens, hosts, resolv.conf
"""
