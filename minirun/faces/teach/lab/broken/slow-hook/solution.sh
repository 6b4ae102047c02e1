# a hook that waits for others waits a bounded time, and then does without
sed -i 's/^until .*/for attempt in 1; do [ -e \/run\/licence-server.of-the-lab ] || sleep 1; done/' hooks/licence.sh
