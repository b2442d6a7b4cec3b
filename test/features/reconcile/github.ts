import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A delivery as GitHub lists it: docs.github.com/rest/repos/webhooks, read 2026-11. */
interface Sent {
  readonly id: number;
  readonly guid: string;
  readonly deliveredAt: string;
  readonly redelivery: boolean;
  readonly status: string;
  readonly statusCode: number;
  readonly event: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: unknown;
}

interface FakeOptions {
  readonly secret: string;
  readonly token?: string;
  /** Where deliveries go; without it they fail. */
  target: string | undefined;
  readonly now?: () => number;
  readonly contentType?: 'application/json' | 'application/x-www-form-urlencoded';
}

/** A right answer if it has no status; `isCut`: the connection ends in the middle of it. */
export interface SpoiltAnswer {
  readonly status?: number;
  readonly body?: string;
  readonly contentType?: string;
  readonly isCut?: boolean;
}

/** GitHub's webhooks and their log: it sends each delivery once, and never again by itself. */
export interface FakeGithub {
  readonly baseUrl: string;
  readonly sent: readonly Sent[];
  /** Requests to the log, as method and path. */
  readonly asked: string[];
  /** How often the log was asked for its newest deliveries: a look starts so, once the last has settled its finds. */
  readonly looks: number;
  /** The log's next answers instead, oldest first. */
  readonly answers: { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }[];
  /** Likewise for the contents of the delivery with that id; the last one repeats. */
  readonly spoilt: Map<number, SpoiltAnswer[]>;
  target: string | undefined;
  deliver(payload: unknown, event?: string): Promise<Sent>;
  /** Sends an earlier delivery again, unchanged. */
  redeliver(sent: Sent): Promise<number>;
  /** From now on the log shows payloads that differ from the signed ones. */
  tamper(change: (payload: unknown) => unknown): void;
  close(): Promise<void>;
}

const PER_PAGE = 30;

export async function fakeGithub(options: FakeOptions): Promise<FakeGithub> {
  const { secret, token = 'ghp_test', contentType = 'application/json', now = Date.now } = options;
  const sent: Sent[] = [];
  const asked: string[] = [];
  const answers: FakeGithub['answers'] = [];
  const spoilt: FakeGithub['spoilt'] = new Map();
  const spoiltAnswer = (id: number): SpoiltAnswer | undefined => {
    const queue = spoilt.get(id) ?? [];
    return queue.length > 1 ? queue.shift() : queue[0];
  };
  let shown = (payload: unknown) => payload;
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    respond(request, response);
  });
  const respond = (request: IncomingMessage, response: ServerResponse) => {
    const answer = (status: number, body: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body, null, 2));
    };
    const special = answers.shift();
    if (special !== undefined) return answer(special.status, special.body ?? '{}', special.headers);
    if (request.headers.authorization !== `Bearer ${token}`) return answer(401, { message: 'Bad credentials' });
    const url = new URL(request.url ?? '/', base());
    const [, id] = /^\/repos\/octo\/shop\/hooks\/7\/deliveries(?:\/(\d+))?$/.exec(url.pathname) ?? [null];
    if (id === null) return answer(404, { message: 'Not Found' });
    if (id !== undefined) {
      const found = sent.find((each) => each.id === Number(id));
      if (found === undefined) return answer(404, { message: 'Not Found' });
      const bad = spoiltAnswer(found.id);
      if (bad?.isCut === true) {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write('{"id": 1, ');
        setImmediate(() => response.destroy());
        return;
      }
      if (bad?.status !== undefined) {
        return answer(bad.status, bad.body ?? '', { 'content-type': bad.contentType ?? 'application/json' });
      }
      const request = { headers: found.headers, payload: shown(found.payload) };
      return answer(200, {
        ...listed(found),
        url: options.target ?? '',
        request,
        response: { headers: {}, payload: '' },
      });
    }
    const size = Math.min(Number(url.searchParams.get('per_page') ?? PER_PAGE), PER_PAGE);
    const before = Number(url.searchParams.get('cursor') ?? Number.POSITIVE_INFINITY);
    const page = sent
      .filter((each) => each.id < before)
      .toReversed()
      .slice(0, size);
    const last = page.at(-1);
    const isMore = last !== undefined && last.id > 1;
    const link = `<${base()}${url.pathname}?per_page=${size}&cursor=${last?.id}>; rel="next"`;
    answer(200, page.map(listed), isMore ? { link } : {});
  };
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const base = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const post = async (headers: Sent['headers'], body: string): Promise<{ status: string; statusCode: number }> => {
    if (fake.target === undefined) return { status: 'failed to connect to host', statusCode: 502 };
    try {
      const answer = await fetch(fake.target, { method: 'POST', headers, body });
      await answer.arrayBuffer();
      return { status: answer.ok ? 'OK' : `Invalid HTTP Response: ${answer.status}`, statusCode: answer.status };
    } catch {
      return { status: 'failed to connect to host', statusCode: 502 };
    }
  };
  const bytesOf = (payload: unknown) => {
    const json = JSON.stringify(payload);
    return contentType === 'application/json' ? json : new URLSearchParams({ payload: json }).toString();
  };
  const fake: FakeGithub = {
    baseUrl: base(),
    sent,
    asked,
    get looks() {
      return asked.filter((request) => request.includes('deliveries?') && !request.includes('cursor=')).length;
    },
    answers,
    spoilt,
    target: options.target,
    async deliver(payload, event = 'push') {
      const guid = randomUUID();
      const body = bytesOf(payload);
      const headers = {
        Accept: '*/*',
        'content-type': contentType,
        'User-Agent': 'GitHub-Hookshot/044aadd',
        'X-GitHub-Delivery': guid,
        'X-GitHub-Event': event,
        'X-GitHub-Hook-ID': '7',
        'X-Hub-Signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      };
      const id = sent.length + 1;
      const outcome = await post(headers, body);
      const made: Sent = {
        ...{
          id,
          guid,
          deliveredAt: new Date(now()).toISOString().replace(/\.\d+Z/, 'Z'),
          redelivery: false,
          event,
          headers,
          payload,
          ...outcome,
        },
      };
      sent.push(made);
      return made;
    },
    async redeliver({ headers, payload }) {
      return (await post(headers, bytesOf(payload))).statusCode;
    },
    tamper(change) {
      shown = change;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
  return fake;
}

function listed({ id, guid, deliveredAt, redelivery, status, statusCode, event }: Sent) {
  return {
    ...{ id, guid, delivered_at: deliveredAt, redelivery, duration: 0.27, status, status_code: statusCode, event },
    ...{ action: null, installation_id: null, repository_id: 123, throttled_at: null },
  };
}
