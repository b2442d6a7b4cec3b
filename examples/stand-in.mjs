import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

/**
 * Listens at a URL in the place of a real service. Prints what each request asks for, and answers 200 with the JSON that
 * `answer` yields. `POST /stop` ends the process, as an outage does.
 */
export function standIn(name, url, answer) {
  const server = createServer(async (request, response) => {
    if (request.url === '/stop') {
      response.end('stopped\n', () => process.exit());
      return;
    }
    const body = request.method === 'POST' ? await json(request) : undefined;
    process.stdout.write(`${name}  ${request.method} ${request.url} ${JSON.stringify(body) ?? ''}\n`);
    const { searchParams } = new URL(request.url, url);
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer({ body, searchParams })));
  });
  const { origin, port } = new URL(url);
  server.listen(Number(port), '127.0.0.1', () => process.stdout.write(`${name}  listens on ${origin}\n`));
}
