import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

interface Registry {
  readonly url: string;
  close(): void;
}

interface Published {
  readonly name: string;
  readonly versions: Readonly<Record<string, { readonly dist: { tarball: string } }>>;
  readonly _attachments: Readonly<Record<string, { readonly data: string }>>;
}

/** As much of a registry as `npm publish` and an install need: keeps packages, returns them by name and by file. */
export async function startRegistry(): Promise<Registry> {
  const packages = new Map<string, Published>();
  const files = new Map<string, Buffer>();
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(request.url ?? '').split('?')[0] ?? '';
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (request.method === 'PUT') {
      const published = (await json(request)) as Published;
      packages.set(published.name, published);
      for (const version of Object.values(published.versions)) {
        const [[file, { data }] = ['', { data: '' }]] = Object.entries(published._attachments);
        files.set(`/-/${file}`, Buffer.from(data, 'base64'));
        version.dist.tarball = `${url}/-/${encodeURIComponent(file)}`;
      }
      return answer(201, { ok: true });
    }
    const file = files.get(path);
    if (file !== undefined) return void response.end(file);
    const found = packages.get(path.slice(1));
    return found === undefined ? answer(404, { error: 'not found' }) : answer(200, found);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, close: () => void server.close() };
}
