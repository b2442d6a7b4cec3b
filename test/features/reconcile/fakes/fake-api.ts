import { type Received, serve } from '../../../flows/handlers/loopback-server.ts';

export interface FakeRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface FakeAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A publisher's API as its documentation describes it; pure, so that properties are tested without sockets. */
export type FakeApi = (request: FakeRequest) => FakeAnswer;

/** Serves a fake on a loopback port until the end of the test. `failures` are its next answers, before its own. */
export async function serveApi(api: FakeApi) {
  const failures: FakeAnswer[] = [];
  const { origin, received } = await serve((_, response) => {
    const { method = '', url = '', headers, body } = received.at(-1) as Received;
    const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
    const request = { method, url: new URL(url, origin), headers: texts, body: String(body) };
    const answer = failures.shift() ?? api(request);
    response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
    response.end(answer.body);
  });
  return { url: origin, received, failures };
}

export function json(value: unknown, headers: Readonly<Record<string, string>> = {}): FakeAnswer {
  return { status: 200, headers, body: JSON.stringify(value) };
}

export const refused = (status: number, message: string): FakeAnswer => ({
  status,
  body: JSON.stringify({ error: { message } }),
});

/** The answer of an API that is asked too often. */
export const tooMany = (retryAfter: string): FakeAnswer => ({
  ...refused(429, 'too many requests'),
  headers: { 'retry-after': retryAfter },
});
