import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Chance, chanceOf } from '../chance.ts';
import { OWN_IDS } from './same-answers-labels.ts';

const idOf = (number: number) => `${OWN_IDS}${String(number).padStart(12, '0')}`;

export const FLOWS = {
  hooks: idOf(1),
  audit: idOf(2),
  waits: idOf(3),
  loops: idOf(4),
  parent: idOf(5),
  child: idOf(6),
  failures: idOf(7),
  clocks: idOf(8),
  limited: idOf(9),
  calls: idOf(10),
  /** Deployed again and again in different forms. */
  clay: idOf(11),
  stone: idOf(12),
  /** Its runs time out after a second. */
  brief: idOf(13),
} as const;
export const UNKNOWN_ID = idOf(99);
/** The secrets that manifests refer to. */
export const SECRETS = {
  SECRET_GITHUB: "It's a Secret to Everybody",
  SECRET_OLD: 'an old key of GitHub',
  SECRET_CUSTOM: 'a key of its own',
  SECRET_OF_CALLS: 'never shown',
} as const;

const after = (...keys: string[]) => ({ runAfter: Object.fromEntries(keys.map((key) => [key, ['Succeeded']])) });
const github = (slug: string) => ({
  webhookSlug: slug,
  webhookSignatureScheme: 'GitHub',
  webhookHmacKey: 'env:SECRET_GITHUB',
  webhookNonceHeader: 'X-GitHub-Delivery',
});
const echo = { type: 'Transform', inputs: { value: `\${trigger.body}` } };
/** Search keys of triggers. */
const KEYS = { order: 'body.order', Kunde: 'body.customer.name' };

const STANDING: readonly object[] = [
  {
    id: FLOWS.hooks,
    name: 'Hooks ÄÖ 100%_',
    version: '1',
    triggers: {
      github: {
        type: 'webhook',
        inputs: { ...github('hooks'), webhookHmacKeyPrevious: 'env:SECRET_OLD' },
        searchKeys: KEYS,
      },
      kept: {
        type: 'webhook',
        inputs: { ...github('Kept'), webhookDuplicateResponse: 'acknowledge', webhookHoldDeliveries: true },
      },
      open: {
        type: 'webhook',
        inputs: { webhookSlug: 'open', webhookResponse: { contentType: 'text/plain', body: 'Danke 😀' } },
        searchKeys: KEYS,
      },
      hand: { type: 'manual', searchKeys: KEYS },
    },
    steps: { first: echo, second: { type: 'LogMessage', inputs: { message: 'seen' }, ...after('first') } },
  },
  {
    id: FLOWS.child,
    name: 'child',
    version: '1',
    triggers: {},
    steps: {
      look: echo,
      fail: {
        type: 'Fail',
        inputs: { message: 'as told' },
        runAfter: { look: { when: 'trigger.body.how == "fail"' } },
      },
      wait: {
        type: 'WaitForSignal',
        inputs: { signalName: 'child' },
        runAfter: { fail: { statuses: ['Skipped'], when: 'trigger.body.how == "wait"' } },
      },
    },
  },
  {
    id: FLOWS.failures,
    name: 'when it fails',
    version: '1',
    triggers: {},
    steps: { note: { type: 'Transform', inputs: { value: `\${trigger.body.error}` } } },
  },
  {
    id: FLOWS.audit,
    name: 'audit',
    version: '1',
    onFailure: FLOWS.failures,
    triggers: {
      custom: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'audit',
          webhookEnforcementMode: 'Audit',
          webhookSignatureScheme: 'Custom',
          webhookHmacKey: 'env:SECRET_CUSTOM',
          webhookSignatureHeader: 'X-Signature',
          webhookSignatureEncoding: 'base64',
          webhookNonceHeader: 'X-Nonce',
          webhookTimestampHeader: 'X-Time',
          webhookReplayToleranceSeconds: 3600,
          webhookBodySchema: { type: 'object', required: ['order'] },
        },
      },
    },
    steps: {
      check: { type: 'Transform', inputs: { value: `\${trigger.body.order}` } },
      fail: {
        type: 'Fail',
        inputs: { message: `No: \${steps.check.output}` },
        runAfter: { check: { when: 'steps.check.output == "bad"' } },
      },
    },
  },
  {
    id: FLOWS.waits,
    name: 'waits',
    version: '1',
    triggers: { start: { type: 'manual', searchKeys: KEYS } },
    steps: {
      first: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
      other: { type: 'WaitForSignal', inputs: { signalName: 'Go', timeoutSeconds: 86_400 } },
      end: {
        type: 'Transform',
        inputs: { value: [`\${steps.first.output}`, `\${steps.other.output}`] },
        ...after('first', 'other'),
      },
      late: {
        type: 'Delay',
        inputs: { seconds: 86_400 },
        runAfter: { end: { when: 'steps.end.output[0] == "late"' } },
      },
      again: { type: 'WaitForSignal', inputs: { signalName: 'go' }, runAfter: { late: ['Succeeded', 'Skipped'] } },
    },
  },
  {
    id: FLOWS.loops,
    name: 'loops',
    version: '1',
    onFailure: FLOWS.failures,
    triggers: { start: { type: 'manual' } },
    steps: {
      each: {
        type: 'ForEach',
        forEach: `\${trigger.body.items}`,
        concurrencyLimit: 1,
        steps: {
          see: { type: 'Transform', inputs: { value: { item: `\${loop.item}`, index: `\${loop.index}` } } },
          refuse: { type: 'Fail', inputs: { message: 'bad' }, runAfter: { see: { when: 'loop.item == "bad"' } } },
          hold: {
            type: 'WaitForSignal',
            inputs: { signalName: 'next' },
            runAfter: { refuse: { statuses: ['Skipped'], when: 'loop.item == "wait"' } },
          },
        },
      },
      done: { type: 'Transform', inputs: { value: `\${steps.each.output}` }, ...after('each') },
      mend: { type: 'NoOp', runAfter: { each: { statuses: ['Failed'], when: 'trigger.body.mend == true' } } },
    },
  },
  {
    id: FLOWS.parent,
    name: 'Parent',
    version: '1',
    triggers: { start: { type: 'manual', searchKeys: KEYS } },
    steps: {
      call: { type: 'RunFlow', inputs: { flow: FLOWS.child, body: `\${trigger.body}` } },
      loose: { type: 'RunFlow', inputs: { flow: FLOWS.child, body: { how: 'well' }, wait: false }, ...after('call') },
      result: { type: 'Transform', inputs: { value: `\${steps.call.output.status}` }, ...after('loose') },
    },
  },
  {
    id: FLOWS.clocks,
    name: 'clocks',
    version: '1',
    triggers: {
      yearly: { type: 'cron', inputs: { cronExpression: '0 0 1 1 *' } },
      'in-Rome': {
        type: 'cron',
        inputs: { cronExpression: '0 0 12 29 2 *', timeZone: 'Europe/Rome', onMissed: 'skip' },
      },
    },
    steps: { tick: { type: 'NoOp' } },
  },
  {
    id: FLOWS.limited,
    name: 'limited',
    version: '1',
    triggers: {
      few: {
        type: 'webhook',
        inputs: {
          ...github('few'),
          webhookRateLimitPermitsPerSecond: 0.0001,
          webhookRateLimitBurstSize: 5,
          webhookRateLimitPerIp: true,
        },
      },
      asana: {
        type: 'webhook',
        inputs: { webhookSlug: 'asana', webhookSignatureScheme: 'Asana', webhookLearnKey: true },
      },
      allowed: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'allowed',
          webhookIpAllowList: ['198.51.100.0/24'],
          webhookIpDenyList: '198.51.100.7',
        },
      },
    },
    steps: { only: { type: 'NoOp' } },
  },
  {
    id: FLOWS.brief,
    name: 'brief',
    version: '1',
    timeoutSeconds: 1,
    triggers: { start: { type: 'manual' } },
    steps: {
      wait: { type: 'WaitForSignal', inputs: { signalName: 'never', timeoutSeconds: 0.2 }, runAfter: {} },
      more: {
        type: 'WaitForSignal',
        inputs: { signalName: 'never' },
        runAfter: { wait: { statuses: ['Failed'], when: 'trigger.body == "long"' } },
      },
    },
  },
];

/** Calls a receiver that answers by path; one step polls, another retries after an hour. */
const callsTo = (receiver: string): object => ({
  id: FLOWS.calls,
  name: 'calls',
  version: '1',
  timeoutSeconds: 86_400,
  triggers: { start: { type: 'manual' } },
  steps: {
    call: {
      type: 'HttpRequest',
      inputs: {
        url: `${receiver}/\${trigger.body.path}`,
        method: 'POST',
        body: `\${trigger.body}`,
        headers: { 'x-secret': 'env:SECRET_OF_CALLS' },
      },
      retry: { maxAttempts: 2, backoffSeconds: 0, jitter: false },
    },
    poll: {
      type: 'HttpRequest',
      inputs: {
        url: `${receiver}/poll`,
        pollEnabled: true,
        pollIntervalSeconds: 3600,
        pollCondition: 'response.body.isDone == true',
      },
      runAfter: { call: { when: 'has(trigger.body.poll)' } },
    },
    later: {
      type: 'HttpRequest',
      inputs: { url: `${receiver}/503` },
      retry: { maxAttempts: 5, backoffSeconds: 3600, maxBackoffSeconds: 3600, jitter: false },
      runAfter: { poll: { statuses: ['Succeeded', 'Skipped'], when: 'has(trigger.body.later)' } },
    },
  },
});

/** The flows that both services start with; called flows before their callers. */
export function manifests(receiver: string): readonly object[] {
  return [
    ...STANDING,
    callsTo(receiver),
    clayOf(chanceOf('the first clay'), FLOWS.clay),
    clayOf(chanceOf('the first stone'), FLOWS.stone),
  ];
}

const NAMES = ['clay', 'Ton', 'ton', 'e\u0301', 'é', '😀', 'a_b', 'a%b', 'İ', 'ß'];
const STEPS: readonly object[] = [
  { type: 'NoOp' },
  echo,
  { type: 'Transform', inputs: { value: '😀 é' } },
  { type: 'Transform', inputs: { value: `\${trigger.body.n}` } },
  { type: 'WaitForSignal', inputs: { signalName: 'go' } },
  { type: 'Delay', inputs: { seconds: 0 } },
  { type: 'Fail', inputs: { message: 'on purpose' } },
];

/**
 * A small flow of random form; most pairs differ in ways that a deploy judges. Only one holds deliveries and only the
 * other has a flow for failures, because runs that several simultaneous failures start have no order.
 */
export function clayOf(chance: Chance, id: string): Record<string, unknown> {
  const { below, pick, once } = chance;
  const keys = ['a', 'B', 'c-1'].slice(0, 1 + below(3));
  const steps = keys.map((key, n) => {
    const before = keys[n - 1];
    const edge = pick<unknown>([
      ['Succeeded'],
      ['Failed', 'Succeeded'],
      { statuses: ['Skipped', 'Succeeded'] },
      { when: 'trigger.body.n == 1' },
    ]);
    return [key, { ...pick(STEPS), ...(before === undefined ? {} : { runAfter: { [before]: edge } }) }];
  });
  const slug = (id === FLOWS.clay ? 'clay' : 'stone') + (once(4) ? '-other' : '');
  const hook = [
    pick(['hook', 'hook', 'Hook', 'renamed']),
    {
      type: 'webhook',
      inputs: { ...github(slug), webhookHoldDeliveries: id === FLOWS.clay },
      ...(once(2) ? { searchKeys: KEYS } : {}),
    },
  ];
  const clock = [
    pick(['nightly', 'Nightly']),
    {
      type: 'cron',
      inputs: { cronExpression: pick(['0 0 1 1 *', '0 0 2 1 *']), timeZone: pick(['UTC', 'Asia/Tokyo']) },
    },
  ];
  const hand = ['by-hand', { type: 'manual', ...(once(2) ? { searchKeys: KEYS } : {}) }];
  const triggers = [hook, hand, clock].filter(() => !once(4));
  return {
    id,
    name: pick(NAMES),
    version: pick(['1', '2', '2.0-é']),
    ...(id === FLOWS.stone && once(2) ? { onFailure: pick([FLOWS.failures, FLOWS.child]) } : {}),
    ...(once(4) ? { concurrency: 1 + below(3) } : {}),
    ...(once(4) ? { timeoutSeconds: 86_400 } : {}),
    triggers: Object.fromEntries(triggers),
    steps: Object.fromEntries(steps),
  };
}

/** The receiver of the flows' requests; it answers by path. */
export async function startReceiver(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const status = Number(/\d{3}/.exec(request.url ?? '')?.[0] ?? 200);
      response.writeHead(status, { 'content-type': 'application/json', date: 'Thu, 01 Jan 1970 00:00:00 GMT' });
      response.end(
        status === 204
          ? undefined
          : JSON.stringify({ path: request.url, isDone: false, n: 12345678901234567890n.toString() }),
      );
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
