// Without a network the page comes from the copy that offline.js has kept. With one it comes from
// there: only the parts of the disk, whose folder's name has its checksum, are taken from the copy.

const NAME = `minirun-tab ${new URL("./", self.location).pathname}`;
const FIXED = /\/disk-[0-9a-f]{8}\//;

async function answer(request) {
  const kept = () => caches.match(request, { cacheName: NAME, ignoreSearch: true });
  if (FIXED.test(request.url)) {
    const found = await kept();
    if (found) return found;
  }
  try {
    return await fetch(request);
  } catch (error) {
    const found = await kept();
    if (found) return found;
    throw error;
  }
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const own = new URL(event.request.url).origin === self.location.origin;
  if (own && event.request.method === "GET") event.respondWith(answer(event.request));
});
