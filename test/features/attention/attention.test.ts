import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { attentionTo } from '../../../src/features/attention/service.ts';
import type { UnevaluatedCount } from '../../../src/features/deliveries/store.ts';
import type { holdStore } from '../../../src/features/hold/store.ts';
import { rotationConcerns } from '../../../src/features/keys/service.ts';
import type { OrderReport } from '../../../src/features/order/store.ts';
import { rhythm } from '../../../src/features/rhythm/service.ts';
import type { RhythmRow } from '../../../src/features/rhythm/store.ts';
import type { LongStep } from '../../../src/features/runs/store.ts';
import type { Schedule } from '../../../src/features/schedules/scheduler.ts';
import { serviceParts } from '../../../src/features/service.ts';
import { REASON_CODES } from '../../../src/model/delivery.ts';
import type { Members } from '../../../src/store/part.ts';
import {
  endDue,
  HOOK_ONLY_ID,
  NOW,
  ORDERS_ID,
  orderDelivery,
  startDashboard,
  type TestDashboard,
  useDashboard,
} from '../../dashboard/fixture.ts';

const HOUR_MS = 3_600_000;
const IDS = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
/** Text that people do not read: ids, reason codes and socket errors. The link has them instead. */
const CODES = new RegExp(`${IDS.source}|\\b(?:${REASON_CODES.join('|')})\\b|\\bE(?:CONN|HOST|NET|TIMED|NOTF)\\w+`);

const GIB = 1_073_741_824;
type Situation = Parameters<typeof attentionTo>[0];
type Services = Parameters<typeof attentionTo>[1];
type AttentionItem = Awaited<ReturnType<typeof attentionTo>>[number];
/** The situation that the rules get, and the answers to what they ask. */
interface Asked extends Situation {
  readonly held: Awaited<ReturnType<Members<typeof holdStore>['listHeld']>>;
  readonly orders: OrderReport;
  readonly schedules: readonly Schedule[];
  readonly replicas: Awaited<ReturnType<Services['store']['listReplicas']>>;
  readonly dead: readonly { readonly name: string; readonly at: number; readonly steps: number }[];
  readonly rhythms: readonly RhythmRow[];
  readonly longSteps: readonly LongStep[];
  readonly unevaluated: readonly UnevaluatedCount[];
  readonly refused: { readonly count: number; readonly firstAt: number | null; readonly redelivered: number };
}

const slots: Situation['slots'] = { running: 64, alone: null, waits: [], concurrency: 64 };
const calm: Asked = {
  now: NOW,
  since: NOW - 24 * HOUR_MS,
  flows: [],
  triggers: [],
  apart: [],
  schedules: [],
  ended: [],
  deliveries: [],
  held: [],
  slots,
  longSteps: [],
  replicas: [],
  dead: [],
  storage: { fileBytes: 0, walBytes: 0, freeBytes: null, oldestNonceEnd: null },
  rhythms: [],
  unevaluated: [],
  refused: { count: 0, firstAt: null, redelivered: 0 },
  orders: { stopped: [], keyless: [] },
  unreadable: [],
  isServed: () => false,
  newKeys: [],
  lacking: [],
};
/** Services that know only these answers. */
const servicesOf = (asked: Asked) =>
  ({
    parts: serviceParts,
    settings: {},
    clock: { now: () => NOW },
    triggers: () => ({ list: () => [] }),
    inForce: () => ({}),
    receiver: {},
    extensions: { of: () => ({ list: async () => [], since: () => [] }) },
    heartbeat: { state: () => ({ dead: asked.dead }), isFit: () => false },
    catalog: { list: () => asked.schedules.map(scheduled) },
    store: {
      listDeliveries: async () => ({ items: [] }),
      listReplicas: async () => asked.replicas,
      of: () => ({
        listHeld: async () => asked.held,
        listSchedules: async () => asked.schedules,
        reportOrders: async () => asked.orders,
        listRhythms: async () => asked.rhythms,
        listLongSteps: async () => asked.longSteps,
        countUnevaluated: async () => asked.unevaluated,
        countRefused: async () => asked.refused,
        listReconciliations: async () => [],
        listPathDrifts: async () => [],
        listDowntimes: async () => [],
        listKeyFigures: async () => [],
        listKeyUsers: async () => [],
      }),
    },
  }) as unknown as Services;
/** A flow with the trigger of a schedule. */
const scheduled = ({ flowId: id, flowName: name, triggerKey, cron: cronExpression, timeZone }: Schedule) => ({
  record: { id, name },
  loaded: { manifest: { triggers: { [triggerKey]: { type: 'cron', inputs: { cronExpression, timeZone } } } } },
});
const told = { storeKey: null, secrets: {}, settings: { SLUICE_PUBLIC_URL: 'a' }, extensions: [] };
const replica = {
  name: 'one',
  version: '1',
  startedAt: NOW,
  seenAt: NOW,
  clockOffsetMs: 0,
  fingerprint: null,
  steps: 0,
};
const wait = { flowId: ORDERS_ID, limit: null, count: 40, isMore: false, oldestDueAt: NOW - 42_000 };
const longStep = {
  flowId: ORDERS_ID,
  runId: 'run',
  stepKey: 'book',
  known: 5,
  longestMs: 30_000,
  startedAt: NOW - 90_000,
};
const waiting = { kind: 'steps_waiting_for_slot', link: `/flows/runs?status=Running&flowId=${ORDERS_ID}` } as const;
const schedule = {
  flowId: ORDERS_ID,
  triggerKey: 'hourly',
  cron: '0 * * * *',
  timeZone: 'UTC',
  cronOverride: null,
  isPaused: false,
  isDraining: false,
  nextAt: NOW + HOUR_MS,
  lastAt: NOW,
  revision: 1,
  jobId: 'job',
  flowName: 'orders',
};
/** A flow as far as the rules read it. */
function flowOf(name: string, { id = ORDERS_ID, isEnabled = true } = {}) {
  return {
    record: { id, name, isEnabled },
    loaded: { manifest: { steps: {} } },
  } as unknown as Situation['flows'][number];
}
const delivered = {
  ...({ flowId: ORDERS_ID, triggerKey: 'shop', reason: 'signature_mismatch', rejected: true } as const),
  count: 20,
  recent: 20,
  usedPreviousKey: 0,
};
const failed = { flowId: ORDERS_ID, status: 'Failed', count: 2 } as const;
const rotated: Parameters<typeof rotationConcerns>[0][number] = {
  ...{
    flowId: ORDERS_ID,
    flowName: 'orders',
    triggerKey: 'shop',
    role: 'previous',
    fingerprint: null,
    reference: null,
  },
  ...{ since: NOW, lastVerifiedAt: NOW, count: 5, recent: 5, advice: null, message: 'what there is to say', users: [] },
};
const onFlow = { message: 'what there is to say', link: `/flows/flows/${ORDERS_ID}?view=keys` };

describe('what needs a look', () => {
  it.each<[rule: string, asked: Partial<Asked>, items: Partial<AttentionItem>[]]>([
    ['nothing where all is well', { schedules: [schedule], replicas: [replica] }, []],
    [
      'a step that runs three times as long as it ever took',
      {
        flows: [flowOf('orders')],
        longSteps: [
          longStep,
          { ...longStep, longestMs: 30_001 },
          // Too few runs are known.
          { ...longStep, known: 4 },
        ],
      },
      [
        {
          kind: 'step_running_long',
          severity: 'warning',
          message:
            'The step book of orders has been running longer than usual, for 90 s: in the 5 newest runs in which it succeeded it took at most 30 s',
          link: '/flows/runs/run?step=book',
        },
      ],
    ],
    [
      'held deliveries, and warns of those that are held for more than 7 days',
      {
        flows: [flowOf('orders')],
        held: [
          { flowId: ORDERS_ID, held: 3, oldestAt: NOW - 7 * 24 * HOUR_MS - 1 },
          { flowId: HOOK_ONLY_ID, held: 9, oldestAt: NOW - 7 * 24 * HOUR_MS },
        ],
      },
      [
        {
          kind: 'deliveries_held_long',
          severity: 'warning',
          message: expect.stringMatching(/^3 accepted deliveries of orders wait .* the oldest since .* discard them/),
          link: `/flows/deliveries?flowId=${ORDERS_ID}&outcome=held`,
        },
        {
          kind: 'deliveries_held',
          severity: 'info',
          message: expect.stringMatching(/^9 accepted deliveries of /),
          link: `/flows/deliveries?flowId=${HOOK_ONLY_ID}&outcome=held`,
        },
      ],
    ],
    [
      'replicas whose clock is more than 2 s off the clock of the database',
      {
        replicas: [
          { ...replica, clockOffsetMs: 2000 },
          { ...replica, name: 'two', clockOffsetMs: 2450 },
          { ...replica, name: 'three', clockOffsetMs: -2001 },
        ],
      },
      [
        {
          kind: 'replica_clock',
          severity: 'warning',
          message:
            'The clock of the replica two is 2.5 s ahead of the clock of the database; synchronise both with NTP',
          link: '/flows/api/replicas',
        },
        { kind: 'replica_clock', message: expect.stringContaining('three is 2.0 s behind the clock') },
      ],
    ],
    [
      'replicas that died',
      { dead: [{ name: 'two', at: NOW, steps: 3 }] },
      [
        {
          kind: 'replica_died',
          severity: 'warning',
          message: expect.stringMatching(
            /^The replica two died: it was last seen at .* 3 steps that it ran were given/,
          ),
          link: '/flows/api/replicas',
        },
      ],
    ],
    [
      'a disk with less than 1 GiB left',
      { storage: { fileBytes: 1, walBytes: 1, freeBytes: GIB - 1, oldestNonceEnd: null } },
      [
        {
          kind: 'disk_low',
          severity: 'error',
          message: expect.stringContaining('has 1.0 GiB left: when'),
          link: '/metrics',
        },
      ],
    ],
    [
      'a disk with less room than the database takes',
      { storage: { fileBytes: 4.9 * GIB, walBytes: 0.1 * GIB, freeBytes: 4 * GIB, oldestNonceEnd: null } },
      [
        {
          kind: 'disk_low',
          severity: 'warning',
          message: expect.stringContaining('has 4.0 GiB left and the database takes 5.0 GiB'),
          link: '/metrics',
        },
      ],
    ],
    [
      'no disk with room enough',
      { storage: { fileBytes: GIB, walBytes: 0, freeBytes: GIB, oldestNonceEnd: null } },
      [],
    ],
    [
      'a write-ahead log that a reader holds back',
      { storage: { fileBytes: GIB, walBytes: GIB / 2, freeBytes: 9 * GIB, oldestNonceEnd: null } },
      [
        {
          kind: 'log_held_back',
          severity: 'warning',
          message: expect.stringContaining('takes 0.5 GiB and cannot be cut'),
          link: '/metrics',
        },
      ],
    ],
    [
      'a large database, of which PostgreSQL does not say how much more fits',
      { storage: { fileBytes: 21 * GIB, walBytes: null, freeBytes: null, oldestNonceEnd: null } },
      [
        {
          kind: 'database_large',
          severity: 'info',
          message: expect.stringContaining('takes 21.0 GiB'),
          link: '/metrics',
        },
      ],
    ],
    [
      'what is not the same in all replicas',
      {
        replicas: [
          { ...replica, fingerprint: told },
          { ...replica, name: 'two', fingerprint: { ...told, settings: { SLUICE_PUBLIC_URL: 'b' } } },
        ],
      },
      [
        {
          kind: 'replicas_differ',
          severity: 'warning',
          message: 'SLUICE_PUBLIC_URL differs between replicas: one / two',
          link: '/flows/api/replicas',
        },
      ],
    ],
    [
      'runs that failed or timed out, flow by flow',
      { ended: [failed, { ...failed, status: 'TimedOut', count: 1 }, { ...failed, status: 'Succeeded' }] },
      [
        {
          kind: 'failed_runs',
          severity: 'error',
          message: `3 runs of ${ORDERS_ID} failed in the last 24 hours`,
          link: `/flows/runs?status=Failed&flowId=${ORDERS_ID}&since=2026-11-20T12:00Z`,
        },
      ],
    ],
    [
      'a failed run that holds its key, and runs without one',
      {
        orders: {
          stopped: [
            { runId: 'one', flowId: ORDERS_ID, key: 'A 1', status: 'Failed', waiting: 3 },
            { runId: 'two', flowId: ORDERS_ID, key: null, status: 'TimedOut', waiting: 0 },
            { runId: 'four', flowId: ORDERS_ID, key: 'B', status: 'Failed', waiting: 1 },
          ],
          keyless: [{ flowId: ORDERS_ID, count: 2, runId: 'three', problem: 'it gives null' }],
        },
      },
      [
        {
          kind: 'order_stopped',
          severity: 'error',
          message:
            `A failed run of ${ORDERS_ID} holds the key “A 1”, so no other run of it starts: 3 runs wait. ` +
            'Retry the run, or release its order',
          link: '/flows/runs/one',
        },
        {
          kind: 'order_stopped',
          severity: 'error',
          message:
            `A failed run of ${ORDERS_ID} holds the key of runs without a key, so no other run of it starts: the next ` +
            'one will wait. The run is TimedOut and cannot be retried: release its order',
          link: '/flows/runs/two',
        },
        {
          kind: 'order_stopped',
          severity: 'error',
          message:
            `A failed run of ${ORDERS_ID} holds the key “B”, so no other run of it starts: 1 run waits. ` +
            'Retry the run, or release its order',
          link: '/flows/runs/four',
        },
        {
          kind: 'order_keyless',
          severity: 'warning',
          message:
            `2 runs of ${ORDERS_ID} got no key from \`serialize\` (since 2026-11-20T12:00Z), and all of them run one at a ` +
            'time. The newest: it gives null',
          link: '/flows/runs/three',
        },
      ],
    ],
    [
      'steps that wait while every slot is taken, all flows together',
      {
        slots: {
          ...slots,
          running: 58,
          waits: [
            { ...wait, flowId: HOOK_ONLY_ID, count: 1 },
            { ...wait, isMore: true, oldestDueAt: NOW - 300_000 },
          ],
        },
      },
      [
        {
          ...waiting,
          severity: 'warning',
          message: `More than 41 steps of 2 flows, most of them of ${ORDERS_ID}, have waited for a slot for over 10 s (the oldest for 5 min): 58 of 64 slots are taken, and the last 8 are kept for flows that run no step; raise SLUICE_STEP_CONCURRENCY`,
        },
      ],
    ],
    [
      'steps that wait although slots are free',
      { slots: { ...slots, running: 50, waits: [{ ...wait, count: 1 }] } },
      [
        {
          ...waiting,
          severity: 'warning',
          message: `1 step of ${ORDERS_ID} has waited for a slot for over 10 s (the oldest for 42 s): only 50 of 64 slots are taken, so more slots would not help; check the log and the load of CPU and disk`,
        },
      ],
    ],
    [
      'steps that wait beside one that runs alone',
      { slots: { ...slots, running: 1, alone: { runId: 'r', stepKey: 'a' }, waits: [wait] } },
      [
        {
          ...waiting,
          link: '/flows/runs/r',
          severity: 'warning',
          message: `40 steps of ${ORDERS_ID} have waited for a slot for over 10 s (the oldest for 42 s): the step a of a run runs alone, because it was running when the process died`,
        },
      ],
    ],
    [
      'steps that wait because their manifest says so, and that this is intended',
      {
        slots: {
          ...slots,
          waits: [
            { ...wait, limit: { concurrency: 2, stepType: null } },
            { ...wait, limit: { concurrency: 1, stepType: 'HttpRequest' } },
          ],
        },
      },
      [
        {
          ...waiting,
          severity: 'info',
          message: `40 steps of ${ORDERS_ID} have waited for a slot for over 10 s (the oldest for 42 s): its manifest limits the flow to 2 at once, as intended; raise \`concurrency\` there if that is too slow`,
        },
        {
          ...waiting,
          severity: 'info',
          message: `40 steps of ${ORDERS_ID} have waited for a slot for over 10 s (the oldest for 42 s): its manifest limits its HttpRequest steps to 1 at once, as intended; raise \`concurrency\` there if that is too slow`,
        },
      ],
    ],
    [
      'a schedule that was due two minutes ago',
      { schedules: [{ ...schedule, nextAt: NOW - 120_001 }] },
      [
        {
          kind: 'schedule_overdue',
          message: 'The schedule orders/hourly was due at 2026-11-21T11:57:59Z and has not fired',
        },
      ],
    ],
    ['no schedule that falls due just now', { schedules: [{ ...schedule, nextAt: NOW - 120_000 }] }, []],
    ['no schedule that never fires again', { schedules: [{ ...schedule, nextAt: null }] }, []],
    [
      'a paused schedule, and whether it missed a tick',
      {
        schedules: [
          { ...schedule, isPaused: true },
          { ...schedule, triggerKey: 'daily', isPaused: true, lastAt: NOW - HOUR_MS },
        ],
      },
      [
        {
          severity: 'warning',
          message: 'The schedule orders/daily is paused and would have fired at 2026-11-21T12:00Z',
        },
        { severity: 'info', message: 'The schedule orders/hourly is paused' },
      ],
    ],
    [
      'refusals that are five times as many as usual',
      {
        flows: [flowOf('orders')],
        deliveries: [
          { ...delivered, count: 60 },
          { ...delivered, triggerKey: 'other', count: 25, recent: 25 },
          { ...delivered, triggerKey: 'usual', count: 200 },
        ],
      },
      [
        {
          kind: 'refusals_rising',
          message:
            '20 deliveries to orders/shop had a signature that does not match (in this hour and the one before; normally 3)',
          link: `/flows/deliveries?flowId=${ORDERS_ID}&reason=signature_mismatch&since=2026-11-21T11:00Z`,
          flowId: ORDERS_ID,
          triggerKey: 'shop',
        },
        { severity: 'warning', message: expect.stringMatching(/^25 deliveries to orders\/other had /) },
      ],
    ],
    [
      'refusals that belong to no flow by their reason',
      {
        deliveries: [{ ...delivered, flowId: null, triggerKey: null, reason: 'unknown_flow' }],
      },
      [
        {
          message: '20 deliveries were sent to a URL that no webhook has (in this hour and the one before; normally 0)',
          link: '/flows/deliveries?reason=unknown_flow&since=2026-11-21T11:00Z',
          flowId: null,
          triggerKey: null,
        },
      ],
    ],
    [
      'what gates found under a mode that somebody chose, as a note; what every mode refuses stays a warning',
      {
        flows: [flowOf('orders')],
        triggers: [
          {
            trigger: { flowId: ORDERS_ID, triggerKey: 'shop', flowName: 'orders', inputs: {} },
            mode: 'Audit',
            schemeName: 'GitHub',
          },
        ] as unknown as Situation['triggers'],
        deliveries: [delivered, { ...delivered, reason: 'invalid_json' }],
      },
      [
        { severity: 'warning', message: expect.stringContaining('orders/shop claim to be JSON but are not') },
        { kind: 'trigger_not_enforced', severity: 'info', flowId: ORDERS_ID, triggerKey: 'shop' },
        {
          severity: 'info',
          message: expect.stringMatching(/does not match .*; all were accepted, because its mode is Audit$/),
        },
      ],
    ],
    [
      'a trigger that is enforced and verifies nothing, as a warning',
      {
        triggers: [
          {
            trigger: { flowId: ORDERS_ID, triggerKey: 'shop', flowName: 'orders', inputs: {} },
            mode: 'Enforce',
            schemeName: null,
          },
        ] as unknown as Situation['triggers'],
      },
      [{ kind: 'trigger_not_enforced', severity: 'warning' }],
    ],
    [
      'no repetitions that triggers acknowledge',
      { deliveries: [{ ...delivered, reason: 'nonce_replayed', rejected: false }] },
      [],
    ],
    [
      'refusals because of a flow that is switched off, in words',
      { deliveries: [{ ...delivered, reason: 'flow_disabled', count: 21, recent: 21 }] },
      [
        {
          kind: 'refusals_rising',
          message: `21 deliveries to ${ORDERS_ID}/shop were refused because the flow is disabled or draining, or its trigger is off (in this hour and the one before; normally 0)`,
        },
      ],
    ],
    [
      'deliveries to a disabled flow',
      {
        flows: [flowOf('orders', { isEnabled: false })],
        deliveries: [{ ...delivered, reason: 'flow_disabled', count: 1, recent: 1 }],
      },
      [
        {
          kind: 'deliveries_to_disabled_flow',
          message: '1 delivery to orders was refused because the flow is disabled (in the last 24 hours)',
        },
      ],
    ],
    [
      'no rising refusals of a trigger whose refusals began within a day: that is told already',
      {
        deliveries: [delivered],
        triggers: [
          {
            trigger: { flowId: ORDERS_ID, triggerKey: 'shop', flowName: 'orders', inputs: {} },
            mode: 'Enforce',
            schemeName: 'GitHub',
          },
        ] as unknown as Situation['triggers'],
        rhythms: [
          {
            ...{ flowId: ORDERS_ID, triggerKey: 'shop', lastAt: null },
            found: [{ kind: 'refusals_began', since: NOW, count: 20, reason: 'signature_mismatch' }],
          },
        ],
      },
      [{ kind: 'refusals_began' }],
    ],
    [
      'refusals since the first of them, where the log holds them all',
      {
        flows: [flowOf('orders')],
        deliveries: [{ ...delivered, count: 40, recent: 40 }],
        refused: { count: 40, firstAt: Date.parse('2026-11-21T11:41:58.210Z'), redelivered: 5 },
      },
      [
        {
          kind: 'refusals_rising',
          message:
            '35 deliveries to orders/shop had a signature that does not match (since 2026-11-21T11:41:58Z; normally 0)',
        },
      ],
    ],
    [
      'no refusals that were delivered again and accepted',
      {
        flows: [flowOf('orders', { isEnabled: false })],
        deliveries: [
          { ...delivered, count: 40, recent: 40 },
          { ...delivered, reason: 'flow_disabled', count: 40, recent: 40 },
        ],
        refused: { count: 40, firstAt: NOW, redelivered: 40 },
      },
      [],
    ],
    ['no refusals that are few', { deliveries: [{ ...delivered, count: 19, recent: 19 }] }, []],
    ['no refusals that are as many as ever', { deliveries: [{ ...delivered, count: 500, recent: 60 }] }, []],
    ['no deliveries that passed', { deliveries: [{ ...delivered, reason: null, rejected: false }] }, []],
  ])('names %s', async (_rule, asked, items) => {
    const all = { ...calm, ...asked };
    const found = await attentionTo(all, servicesOf(all));
    // The id of a flow that is not deployed is its only name.
    const named = new Set(all.flows.map(({ record }) => record.id));
    const unnamed = (id: string) => (named.has(id) ? id : 'it');
    for (const { message } of found) expect(message.replace(IDS, unnamed)).not.toMatch(CODES);
    expect(found).toEqual(items.map((item) => expect.objectContaining(item)));
  });
});

it.each<[rule: string, keys: Parameters<typeof rotationConcerns>[0], items: Partial<AttentionItem>[]]>([
  [
    'nothing about keys that are not rotated, or of which nothing is known yet',
    [
      { ...rotated, role: 'current' },
      { ...rotated, advice: 'wait' },
    ],
    [],
  ],
  [
    'a previous key that is still in use, and the more the fresher that is',
    [
      { ...rotated, advice: 'in_use' },
      { ...rotated, advice: 'in_use', recent: 0 },
    ],
    [
      { ...onFlow, kind: 'previous_key_in_use', severity: 'warning' },
      { ...onFlow, kind: 'previous_key_in_use', severity: 'info' },
    ],
  ],
  [
    'a publisher that still signs with the previous key alone, and replicas with different keys',
    [
      { ...rotated, advice: 'not_switched' },
      { ...rotated, advice: 'keys_differ' },
    ],
    [
      { ...onFlow, kind: 'current_key_unused', severity: 'warning' },
      { ...onFlow, kind: 'keys_differ', severity: 'warning' },
    ],
  ],
  [
    'a previous key that may go',
    [
      { ...rotated, advice: 'may_go' },
      { ...rotated, advice: 'same_key' },
    ],
    [
      { ...onFlow, kind: 'previous_key_unused', severity: 'info' },
      { ...onFlow, kind: 'previous_key_unused', severity: 'info' },
    ],
  ],
])('names %s', async (_rule, keys, items) => {
  const parts = [{ name: 'keys', attention: () => rotationConcerns(keys) }];
  expect(await attentionTo(calm, { ...servicesOf(calm), parts })).toEqual(
    items.map((item) => expect.objectContaining(item)),
  );
});

it('tells the known cause of refusals that began within a day', async () => {
  const place = { flowId: ORDERS_ID, triggerKey: 'shop' };
  const asked = {
    ...calm,
    triggers: [
      { trigger: { ...place, flowName: 'orders', inputs: {} }, mode: 'Enforce', schemeName: 'GitHub' },
    ] as unknown as Situation['triggers'],
    rhythms: [
      {
        ...{ ...place, lastAt: null },
        found: [{ kind: 'refusals_began', since: NOW, count: 20, reason: 'signature_mismatch' }],
      },
    ],
    refused: { count: 20, firstAt: NOW, redelivered: 0 },
  };
  const parts = [rhythm, { name: 'keys', causes: async () => ['The key behind env:A changed'] }];
  expect(await attentionTo(asked, { ...servicesOf(asked), parts })).toEqual([
    expect.objectContaining({
      kind: 'refusals_began',
      message: expect.stringMatching(/does not match\. The key behind env:A changed$/),
    }),
  ]);
});

describe('GET /flows/api/attention', () => {
  const dashboard = useDashboard();
  const kinds = async (from: Pick<TestDashboard, 'app'> = dashboard) =>
    (await from.app.inject('/flows/api/attention')).json<AttentionItem[]>().map(({ kind, link }) => [kind, link]);

  it('names each trigger that accepts unverified deliveries, and why', async () => {
    const items = (await dashboard.app.inject('/flows/api/attention')).json();
    expect(items).toEqual([
      {
        kind: 'trigger_not_enforced',
        severity: 'info',
        flowId: ORDERS_ID,
        triggerKey: 'unreachable',
        link: `/flows/flows/${ORDERS_ID}`,
        message:
          'orders/unreachable accepts every delivery, even if a gate fails, because its mode is Audit, and it checks no signature',
      },
      {
        kind: 'trigger_not_enforced',
        severity: 'info',
        flowId: HOOK_ONLY_ID,
        triggerKey: 'hook',
        link: `/flows/flows/${HOOK_ONLY_ID}`,
        message:
          'hook only/hook accepts every delivery, even if a gate fails, because its mode is Audit, and its scheme "no-such-scheme" is unknown',
      },
    ]);
  });

  it('names rising refusals, failed runs and deliveries to a disabled flow', async () => {
    for (let each = 0; each < 20; each += 1) await dashboard.app.inject(orderDelivery('{}', { key: 'wrong' }));
    await dashboard.app.inject(orderDelivery('{}'));
    await endDue(dashboard, { kind: 'failed', error: { code: 'no', message: 'no', retryable: false } });
    await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/disable` });
    await dashboard.app.inject(orderDelivery('{}'));
    const withoutTime = (await kinds()).map(([kind, link]) => [kind, link?.replace(/&since=[-\d]+T[\d:]+Z$/, '')]);
    expect(withoutTime.slice(0, 3)).toEqual([
      ['failed_runs', `/flows/runs?status=Failed&flowId=${ORDERS_ID}`],
      ['refusals_rising', `/flows/deliveries?flowId=${ORDERS_ID}&reason=signature_mismatch`],
      ['deliveries_to_disabled_flow', `/flows/deliveries?flowId=${ORDERS_ID}&reason=flow_disabled`],
    ]);
  });

  it('reports a store that is not writable instead of failing', async () => {
    const ping = () => Promise.reject(new StoreUnavailableError('disk full'));
    const broken = await startDashboard({ store: { ...dashboard.store, ping } });
    expect(await kinds(broken)).toEqual([['store_unavailable', '/health/ready']]);
  });
});
