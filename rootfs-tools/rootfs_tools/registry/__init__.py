"""Registries: images over the network, by the distribution project's HTTP API.

    settings      which hosts a name leads to: registries.conf, mirrors, aliases
    credentials   who the user is there: auth.json, docker's config.json, helpers
    trust         which authorities TLS trusts: the system's, certs.d
    transport     one request: proxies, timeouts, retries           (the only user of urllib3)
    bounded       answers that come to an end
    client        a registry: where it speaks, redirects, who may see the credentials
    auth          its tokens
    source        an image of it, for rootfs_tools.take
    probe         whether the host answers, before a pull that has another way
    pull, push    `minirun pull`, and a run whose image is not here; `minirun push`
    errors        what goes wrong, in the words that docker's users know

What a registry or an image says never chooses where credentials go: they are sent to the host they
are for, and to the token server that this host names over the same trusted connection; not over
plain HTTP, unless the user's own settings call the registry insecure or it is this machine.
"""
