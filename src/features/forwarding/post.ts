import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { text } from 'node:stream/consumers';

/** The connection's own; a new connection has its own. */
export const OF_THE_CONNECTION: ReadonlySet<string> = new Set(
  'connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' '),
);

interface Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly signal?: AbortSignal | undefined;
}

/** Posts bytes with these headers and no others, as fetch would add. Rejects without an answer. */
export function post({ url, headers, body, signal }: Request): Promise<{ status: number; text: string }> {
  const request = url.toLowerCase().startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers: { ...headers, 'content-length': body.byteLength }, signal });
    sent.once('response', (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, text: answer }), reject);
    });
    sent.once('error', reject);
    sent.end(body);
  });
}
