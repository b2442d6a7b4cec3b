import { text } from 'node:stream/consumers';

/** Headers of one connection; a new connection has different ones. */
export const OF_THE_CONNECTION: ReadonlySet<string> = new Set(
  'connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' '),
);

interface Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly signal?: AbortSignal | undefined;
}

/** Posts bytes with exactly these headers: fetch would add others. Rejects if no answer comes. */
export async function post({ url, headers, body, signal }: Request): Promise<{ status: number; text: string }> {
  // Each start loads the commands, and this import costs 40 ms: it reads Node's WebSocket, which loads its undici.
  const { request } = url.toLowerCase().startsWith('https:') ? await import('node:https') : await import('node:http');
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers: { ...headers, 'content-length': body.byteLength }, signal });
    sent.once('response', (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, text: answer }), reject);
    });
    sent.once('error', reject);
    sent.end(body);
  });
}
