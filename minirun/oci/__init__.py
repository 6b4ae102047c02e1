"""config.json and state.json: the runtime-spec as minirun reads and writes it."""
