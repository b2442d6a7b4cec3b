import { createHmac } from 'node:crypto';
import type { Chance } from '../chance.ts';
import { FLOWS, SECRETS, UNKNOWN_ID } from './same-answers-flows.ts';
import { JSON_TYPE, type Pair, post, postJson } from './same-answers-pair.ts';
import { idLike, type Known, recent, TEXTS } from './same-answers-questions.ts';

/** The largest body that both services accept. */
export const MAX_BODY_BYTES = 20_000;

/** A command to both services, with its immediate effects. */
export type Command = (pair: Pair, chance: Chance, known: Known) => Promise<unknown>;

/** A random reason for an action, kept in the activity. */
export const why = (chance: Chance): Record<string, string> =>
  chance.once(6)
    ? { 'x-sluice-reason': chance.pick(['ordered twice', '\u00e9', ' ', 'x'.repeat(600), '%F0%9F%98%80']) }
    : {};

/** Bodies that parsers, stores and expressions may treat differently. */
export function bodyOf(chance: Chance, known: Known): { body: string | Buffer; type?: string } {
  const order = chance.once(3) ? recent(chance, known.used) : chance.pick(TEXTS);
  if (chance.below(10) > 2)
    return {
      body: JSON.stringify({ order, customer: { name: chance.pick(TEXTS) }, n: chance.below(3) }),
      type: 'application/json',
    };
  return chance.pick<{ body: string | Buffer; type?: string }>([
    { body: '', type: 'application/json' },
    { body: '' },
    { body: '{"order":12345678901234567890,"customer":{"name":1.0000000000000000001e400}}', type: 'application/json' },
    { body: '{"order":"a\\u0000b","customer":{"name":"\\ud83d"}}', type: 'application/json' },
    { body: '{"\\u0000":1,"order":{"a":[]}}', type: 'application/json' },
    { body: '{"order":"bad"', type: 'application/json' },
    { body: '{"order":"bad"}', type: 'application/vnd.x+json; charset=utf-8' },
    { body: 'order=7&order=8&%00=%ff', type: 'application/x-www-form-urlencoded' },
    { body: 'text \0 with NUL', type: 'text/plain' },
    { body: Buffer.from([0, 255, 254, 0x80]), type: 'application/octet-stream' },
    { body: Buffer.from('\ufeff{"order":"x"}'), type: 'application/json' },
    {
      body: JSON.stringify({ order: '😀'.repeat(150), customer: { name: `${'x'.repeat(199)}😀` } }),
      type: 'application/json',
    },
    { body: JSON.stringify({ order: 'x'.repeat(MAX_BODY_BYTES) }), type: 'application/json' },
    { body: '['.repeat(3000) + ']'.repeat(3000), type: 'application/json' },
    { body: JSON.stringify({ order: ' \t\n', customer: { name: false } }), type: 'application/json' },
    { body: 'null', type: 'application/json' },
  ]);
}

/** Usually a new value, sometimes an old one. */
export function nameOf(chance: Chance, known: Known, prefix: string): string {
  if (chance.once(4)) return recent(chance, known.used, 'first');
  if (chance.once(12))
    return chance.pick([' ', '\u00e9\u00ff', 'x'.repeat(1000), 'a,b', '"', '%00', 'x'.repeat(255), 'x'.repeat(256)]);
  const value = `${prefix} ${known.used.length}`;
  known.used.push(value);
  return value;
}

export const deliver: Command = async (pair, chance, known) => {
  const { body, type } = bodyOf(chance, known);
  const slug = chance.pick(
    chance.once(6)
      ? ['none', FLOWS.hooks, FLOWS.clay.toUpperCase(), UNKNOWN_ID, 'h%00', '%F0%9F%98%80', 'few', 'allowed']
      : ['hooks', 'HOOKS', 'hooks', 'kept', 'kept', 'open', 'audit', 'audit', 'clay', 'stone', 'stone-other'],
  );
  const [key, signed] =
    slug === 'audit'
      ? [SECRETS.SECRET_CUSTOM, 'x-signature']
      : [chance.once(6) ? SECRETS.SECRET_OLD : SECRETS.SECRET_GITHUB, 'x-hub-signature-256'];
  const hmac = createHmac('sha256', chance.once(8) ? 'forged' : key).update(body);
  const signature = slug === 'audit' ? hmac.digest('base64') : `sha256=${hmac.digest('hex')}`;
  // The services are processes with the machine's clock.
  const now = Math.floor(Date.now() / 1000);
  const headers: Record<string, string> = {
    ...(type !== undefined && { 'content-type': type }),
    ...(!chance.once(12) && {
      [signed]: chance.once(15) ? chance.pick(['', 'sha256=', 'nonsense', `sha256=${'0'.repeat(63)}`]) : signature,
    }),
    ...(!chance.once(12) && { [slug === 'audit' ? 'x-nonce' : 'x-github-delivery']: nameOf(chance, known, 'nonce') }),
    ...(slug === 'audit' &&
      !chance.once(6) && {
        'x-time': chance.pick([String(now), String(now), String(now * 1000), String(now - 9999), 'noon', '']),
      }),
    ...(chance.once(5) && { 'idempotency-key': nameOf(chance, known, 'key') }),
    ...(chance.once(3) && { 'x-github-event': chance.pick(['push', 'Push', 'ping', 'p\u00fcsh']) }),
    ...(chance.once(6) && {
      [chance.pick(['authorization', 'x-odd', 'cookie', 'x-a'])]: chance.pick([
        '',
        '\u00e9\u00ff\u0080',
        'x'.repeat(3000),
        'tab\there',
      ]),
    }),
    ...(chance.once(6) && {
      'x-forwarded-for': chance.pick([
        '198.51.100.9',
        '198.51.100.7',
        '2001:db8::1',
        'no address',
        '198.51.100.9, 192.0.2.1',
      ]),
    }),
  };
  const query = chance.once(10) ? chance.pick(['?a=1&token=x', '?%00', '?']) : '';
  const ask = { ...post(`webhook/${slug}${query}`, body, headers), ...(chance.once(60) ? { method: 'PUT' } : {}) };
  const answer = await pair.tell(ask);
  if (chance.once(15)) {
    // Otherwise a run that the first run's failure starts may come before or after the second.
    await settle(pair);
    await pair.tell(ask);
  }
  if (chance.once(20)) await pair.tell({ ...ask, path: ask.path.replace('webhook/', 'webhooks/dry-run/') });
  return answer;
};

export const redeliver: Command = async (pair, chance, known) => {
  const id = idLike(chance, recent(chance, known.deliveries));
  if (!chance.once(3))
    return pair.tell(
      postJson(
        `webhooks/${id}/redeliver`,
        { ...(chance.once(2) && { force: chance.pick([true, false, 'yes']) }) },
        why(chance),
      ),
    );
  return pair.tell(
    postJson('webhooks/redeliver', {
      // Flows whose runs start no other runs.
      flowId: chance.pick([FLOWS.hooks, FLOWS.clay, FLOWS.limited, UNKNOWN_ID]),
      ...(chance.once(2) && {
        reason: chance.pick(['signature_mismatch', 'flow_disabled', 'signature_missing', 'none']),
      }),
      ...(chance.once(3) && { since: recent(chance, known.pauses, 'noon') }),
      limit: chance.pick([1, 3, 20, 501]),
      plan: chance.once(3),
    }),
  );
};

/** The key that a publisher handed over last; both services learn the first key they receive. */
const HANDED = ['the_first_key_of_a_publisher', 'the_second_key_of_a_publisher', 'the_third_key_of_a_publisher'];

export const handOver: Command = async (pair, chance) => {
  const key = chance.pick(HANDED);
  if (chance.once(2)) return void (await pair.tell(post('webhook/asana', '', { 'x-hook-secret': key })));
  const body = JSON.stringify({ events: [{ n: chance.below(1000) }] });
  const signature = createHmac('sha256', key).update(body).digest('hex');
  await pair.tell(post('webhook/asana', body, { ...JSON_TYPE, 'x-hook-signature': signature }));
};

/** Waits until every run in flight waits for something other than the end of another run. */
export async function settle(pair: Pair): Promise<void> {
  await pair.until({ method: 'GET', path: '/flows/api/runs/active' }, (json) =>
    (json as RunState[]).every(
      ({ flowId, waitingFor }) => flowId !== FLOWS.brief && waitingFor.some((wait) => wait.for !== 'slot'),
    ),
  );
}

interface RunState {
  readonly flowId: string;
  readonly waitingFor: readonly { readonly for: string }[];
}
