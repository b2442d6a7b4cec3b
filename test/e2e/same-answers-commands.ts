import type { Chance } from '../chance.ts';
import { bodyOf, type Command, deliver, handOver, nameOf, redeliver, why } from './same-answers-deliveries.ts';
import { clayOf, FLOWS, UNKNOWN_ID } from './same-answers-flows.ts';
import { type Ask, JSON_TYPE, type Pair, post, postJson } from './same-answers-pair.ts';
import { idLike, recent, TEXTS } from './same-answers-questions.ts';

const anyFlow = (chance: Chance) =>
  idLike(chance, chance.pick([...Object.values(FLOWS), FLOWS.clay, FLOWS.hooks, UNKNOWN_ID]));

/** Bodies that lead runs of a flow down its different paths. */
const BODIES: Readonly<Record<string, readonly unknown[]>> = {
  [FLOWS.waits]: [{ order: 'Order 7', customer: { name: 'Ö' } }, {}, null],
  [FLOWS.loops]: [
    { items: [1, 'b', { c: 3 }] },
    { items: [] },
    { items: ['a', 'bad', 'b'] },
    { items: ['bad'], mend: true },
    { items: ['wait', 'x', 'wait'] },
    { items: 'none' },
    {},
  ],
  [FLOWS.parent]: [{ how: 'well' }, { how: 'fail' }, { how: 'wait' }, { how: 'wait', order: 'xyz' }, 'text'],
  [FLOWS.child]: [{ how: 'well' }, { how: 'fail' }, { how: 'wait' }],
  [FLOWS.calls]: [
    { path: '200' },
    { path: '500' },
    { path: '404' },
    { path: '204', poll: true },
    { path: 'x', later: true },
    { path: '😀' },
  ],
};

const start: Command = async (pair, chance, known) => {
  const id = chance.pick([
    FLOWS.waits,
    FLOWS.waits,
    FLOWS.loops,
    FLOWS.loops,
    FLOWS.parent,
    FLOWS.parent,
    FLOWS.child,
    FLOWS.calls,
    FLOWS.hooks,
    FLOWS.clocks,
    FLOWS.clay,
    FLOWS.stone,
    UNKNOWN_ID,
  ]);
  const usual = BODIES[id];
  const { body, type } =
    usual === undefined || chance.once(20)
      ? bodyOf(chance, known)
      : { body: JSON.stringify(chance.pick(usual)), type: 'application/json' };
  const trigger = chance.once(6)
    ? `?triggerKey=${chance.pick(['start', 'hand', 'github', 'by-hand', 'none', '', '%00', 'hook'])}`
    : '';
  const key: Record<string, string> = chance.once(4) ? { 'idempotency-key': nameOf(chance, known, 'key') } : {};
  const headers = { ...(type !== undefined && { 'content-type': type }), ...key, ...why(chance) };
  const ask = post(`flows/${idLike(chance, id)}/trigger${trigger}`, body, headers);
  if (key['idempotency-key']?.startsWith('key') === true && chance.once(3)) return pair.race(ask, 3);
  await pair.tell(ask);
};

/** Starts a run that no command continues: its step gives up, or the run reaches its time limit. */
const wait: Command = (pair, chance) =>
  pair.tell(postJson(`flows/${FLOWS.brief}/trigger`, chance.pick(['short', 'long'])));

const cancel: Command = async (pair, chance, known) => {
  const running = await pair.ask({ method: 'GET', path: '/flows/api/runs?status=Running&take=10' });
  const run = chance.pick(running.json as { id: string }[]);
  const path = `runs/${idLike(chance, run === undefined || chance.once(4) ? recent(chance, known.runs) : run.id)}/cancel`;
  const odd = [null, { reason: 'a\0' }, { reason: 'x'.repeat(501) }, 'no', { why: 1 }];
  return pair.tell(
    chance.once(3) ? post(path) : postJson(path, chance.once(4) ? chance.pick(odd) : { reason: chance.pick(TEXTS) }),
  );
};

const rerun: Command = (pair, chance, known) =>
  pair.tell(post(`runs/${idLike(chance, recent(chance, known.runs))}/rerun`, '', why(chance)));

const STEP_KEYS = [
  'call',
  'each',
  'each.1.refuse',
  'each.0.refuse',
  'fail',
  'first',
  'a',
  'B',
  'c-1',
  'none',
  'later',
  'poll',
  'check',
  'x%00',
  '%F0%9F%98%80',
];
const retry: Command = async (pair, chance, known) => {
  const failed = await pair.ask({ method: 'GET', path: '/flows/api/runs?status=Failed&take=10' });
  const run = chance.pick(failed.json as { id: string; failure: { stepKey: string } | null }[]);
  const isWild = run === undefined || chance.once(3);
  const id = isWild ? recent(chance, known.runs) : run.id;
  const key = isWild ? chance.pick(STEP_KEYS) : (run.failure?.stepKey ?? 'fail');
  return pair.tell(post(`runs/${idLike(chance, id)}/steps/${key}/retry`, '', why(chance)));
};

const SIGNALS = [true, 'late', null, { a: [1, 12345678901234567890n.toString()] }, '😀 \0 \ud800'];
const signal: Command = async (pair, chance, known) => {
  const waiting = await pair.ask({ method: 'GET', path: '/flows/api/runs?waiting=signal&take=10' });
  const run = chance.pick(waiting.json as { id: string; waitingFor: { signalName: string | null }[] }[]);
  const isWild = run === undefined || chance.once(4);
  const id = isWild ? recent(chance, known.runs) : run.id;
  const asked = isWild ? undefined : chance.pick(run.waitingFor).signalName;
  const name = asked ?? chance.pick(['go', 'Go', 'GO', 'next', 'child', 'no%20name', 'x'.repeat(129), '%00']);
  const body = chance.once(12)
    ? chance.pick(['', '{', '12345678901234567890', '"\\ud800"', '"\\u0000"', '['.repeat(200) + ']'.repeat(200)])
    : JSON.stringify(chance.pick(SIGNALS));
  return pair.tell(post(`runs/${idLike(chance, id)}/signals/${name}`, body, JSON_TYPE));
};

const STARTS_NOTHING: readonly string[] = [FLOWS.hooks, FLOWS.waits, FLOWS.child, FLOWS.clocks, FLOWS.calls];

/** Plans, and in most cases carries the plan out. */
const bulk: Command = async (pair, chance, known) => {
  const path = `runs/${chance.pick(['cancel', 'retry', 'rerun'])}`;
  const filter = {
    ...(chance.below(4) > 0 && { flowId: chance.pick([...Object.values(FLOWS), ...STARTS_NOTHING]) }),
    ...(chance.once(3) && {
      status: chance.once(9) ? 'none' : chance.pick(['Running', 'Failed', 'Succeeded', 'Cancelled']),
    }),
    ...(chance.once(5) && { search: chance.pick(TEXTS) }),
    ...(chance.once(5) && { waiting: chance.pick(['signal', 'delay', 'run']) }),
    ...(chance.once(5) && { since: recent(chance, known.pauses, '2026-01-01T00:00:00Z') }),
    ...(chance.once(6) && { searchKeys: `order:${chance.pick(TEXTS)}` }),
    limit: chance.once(12) ? chance.pick([0, 10_001, 1.5]) : chance.pick([1, 2, 5, 1000]),
  };
  const plan = await pair.tell(postJson(path, filter));
  const token = pair.keep('text', (answer) => (answer as { token?: unknown } | undefined)?.token);
  const { ready } = (plan.json ?? {}) as { ready?: number };
  // Runs that several runs start, or several steps retried at once, end in a different order each time.
  const isAlone = ready === 1 && path !== 'runs/retry';
  const isOrdered = isAlone || (filter.flowId !== undefined && STARTS_NOTHING.includes(filter.flowId));
  if (token === undefined || !isOrdered || chance.once(4)) return;
  const given = chance.once(15) ? chance.pick(['', 'x.y', `${token}A`, token.slice(1)]) : token;
  await carryOut(pair, path, { token: given, ...(chance.once(3) && { reason: chance.pick(TEXTS) }) });
};

async function carryOut(pair: Pair, path: string, planned: object): Promise<void> {
  const started = await pair.tell(postJson(path, { plan: false, ...planned }));
  const { interventionId } = (started.json ?? {}) as { interventionId?: string };
  if (interventionId === undefined) return;
  const kept: Ask = { method: 'GET', path: `/flows/api/activity?id=${interventionId}` };
  await pair.until(kept, (answer) => (answer as { outcome: string }[])[0]?.outcome !== 'unknown');
  await pair.ask(kept);
}

const ON = ['POST enable', 'POST resume', 'DELETE drain'];

interface FlowState {
  readonly held: number;
  readonly isEnabled: boolean;
  readonly drainingSince: string | null;
}

/** Switches on more often than off, so that flows keep working. */
const switchFlow: Command = async (pair, chance) => {
  const flow = `/flows/api/flows/${anyFlow(chance)}`;
  const headers = why(chance);
  const off = ['POST disable', 'POST drain'];
  const [method = '', verb] = chance.pick([...off, ...ON, ...ON, ...ON]).split(' ');
  const answer = await pair.tell({ method, path: `${flow}/${verb}`, headers });
  await pair.until({ method: 'GET', path: '/flows/api/flows' }, (flows) =>
    (flows as FlowState[]).every(
      ({ held, isEnabled, drainingSince }) => held === 0 || !isEnabled || drainingSince !== null,
    ),
  );
  return answer;
};

const schedule: Command = async (pair, chance) => {
  const job = chance.pick([
    `flow-${FLOWS.clocks}-yearly`,
    `flow-${FLOWS.clocks}-in-Rome`,
    `flow-${FLOWS.clay}-nightly`,
    `flow-${FLOWS.clay}-Nightly`,
    'none',
    `FLOW-${FLOWS.clocks}-yearly`,
    '%00',
  ]);
  if (chance.once(3)) {
    const cronExpression = chance.pick(['0 0 1 1 *', '0 0 3 1 *', '0 0 30 2 *', 'daily', '', '\0', '1 2 3 4 5 6 7']);
    return pair.tell({
      method: 'PUT',
      path: `/flows/api/schedules/${job}/cron`,
      headers: JSON_TYPE,
      body: JSON.stringify(chance.once(9) ? { cron: 1 } : { cronExpression }),
    });
  }
  return pair.tell(post(`schedules/${job}/${chance.pick(['pause', 'resume', 'trigger', 'trigger'])}`, '', why(chance)));
};

const deploy: Command = async (pair, chance) => {
  const id = chance.pick([FLOWS.clay, FLOWS.stone]);
  const allow = chance.once(2)
    ? `allow=${chance.pick(['caution', 'breaking', 'caution,breaking', 'rollback', 'all', 'caution,breaking,rollback'])}`
    : '';
  const query = `?${allow}${chance.once(5) ? '&dryRun=true' : ''}`;
  if (chance.once(5))
    return pair.tell({
      method: 'POST',
      path: `/flows/api/flows/${id}/revisions/${1 + chance.below(6)}/restore${query}`,
      headers: why(chance),
    });
  if (chance.once(6)) {
    const both = [clayOf(chance, FLOWS.clay), clayOf(chance, chance.once(9) ? FLOWS.clay : FLOWS.stone)];
    return pair.tell({
      method: 'PUT',
      path: `/flows/api/flows${query}`,
      headers: JSON_TYPE,
      body: JSON.stringify(both),
    });
  }
  if (chance.once(20)) return pair.tell(post(`flows/reload${query}`));
  const manifest = {
    ...clayOf(chance, id),
    ...(chance.once(15) &&
      chance.pick([{ id: FLOWS.hooks }, { name: 'a\0' }, { name: '\ud800' }, { steps: {} }, { nonsense: 1 }])),
  };
  return pair.tell({
    method: 'PUT',
    path: `/flows/api/flows/${idLike(chance, id)}${query}`,
    headers: { ...JSON_TYPE, ...why(chance) },
    body: JSON.stringify(manifest),
  });
};

const forget: Command = (pair, chance) =>
  pair.tell({
    method: 'DELETE',
    path: `/flows/api/flows/${chance.once(3) ? anyFlow(chance) : FLOWS.limited}/triggers/${chance.pick(['asana', 'asana', 'open', 'none', '%00'])}/learned-key`,
  });

const closeCircuit: Command = (pair, chance) =>
  pair.tell(post(`hosts/${chance.pick(['http%3A%2F%2F127.0.0.1%3A1', 'none', '%00'])}/close-circuit`));

/** Cancels all waiting runs, callers before the called, so that later comparisons stay small. */
export async function cancelAll(pair: Pair): Promise<void> {
  for (const flowId of [FLOWS.parent, ...Object.values(FLOWS)]) {
    await pair.tell(postJson('runs/cancel', { flowId, limit: 1000 }));
    const token = pair.keep('text', (answer) => (answer as { token: string }).token);
    await carryOut(pair, 'runs/cancel', { token });
  }
}

/** Each command with its share of all commands. */
export const COMMANDS: readonly (readonly [share: number, command: Command])[] = [
  [12, deliver],
  [8, start],
  [2, cancel],
  [2, rerun],
  [3, retry],
  [5, signal],
  [2, bulk],
  [3, redeliver],
  [4, switchFlow],
  [3, schedule],
  [3, deploy],
  [0.5, forget],
  [1, handOver],
  [0.2, wait],
  [0.3, closeCircuit],
];
