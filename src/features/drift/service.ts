import { z } from 'zod';
import { field, isoTime, unknownId } from '../../dashboard/answer.ts';
import { ID_PARAMS } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, rulesFor, servicePart } from '../../dashboard/services.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { driftAttention } from './attention.ts';
import { PATH_TYPES, PATH_USES, type PathDrift, type PathType } from './paths.ts';
import { createPayloadWatch, readsOfTrigger, timeOf } from './payload-watch.ts';
import { driftStore, type PathCount } from './store.ts';

const type = z.enum(PATH_TYPES);

export const pathSchema = z
  .object({
    triggerKey: z.string(),
    event: field
      .content(z.string().nullable())
      .describe(
        'The search key `event` of the deliveries; null if they have none, or if the path itself contains the event.',
      ),
    path: z.string().describe('Such as `body.items[].sku` or `headers.x-github-event`.'),
    use: z
      .enum(PATH_USES)
      .describe(
        'required: a run fails without it; conditional: only some runs read it; optional: `has()` asks for it.',
      ),
    readAt: z.string().describe('The first place in the manifest that reads it.'),
    looked: field.integer().describe('Sampled deliveries of the last 14 days.'),
    seen: field.integer().describe('Sampled deliveries that had the path.'),
    types: z.array(z.object({ type, count: field.integer() })).describe('The most frequent first.'),
    lastSeenAt: field.time().nullable(),
    drift: z
      .object({
        was: type,
        now: type,
        since: field.time(),
        firstDeliveryId: field.id().describe('The first sampled delivery that differs.'),
        before: field.integer().describe('Sampled deliveries before that one.'),
        differing: field.integer().describe('Sampled deliveries since then that differ.'),
        failed: field.integer().describe('How many of those had a run that failed because the path was missing.'),
      })
      .nullable()
      .describe('What changed; null if nothing did.'),
  })
  .meta({ id: 'Path' });

type Path = z.output<typeof pathSchema>;

/** The paths that a flow reads from its deliveries, and whether deliveries have them. */
const pathRoutes: ApiRoutes = (app, services) => {
  const { store, catalog, triggers } = services;
  app.get(
    '/flows/api/flows/:id/paths',
    route('flows', {
      operationId: 'listPaths',
      limit: 'flow',
      summary: 'The paths of its deliveries that a flow reads, and how many deliveries had them',
      description:
        'Sluice samples accepted deliveries once a minute, up to 50 of each trigger, of each event in turn. It does not store their values.',
      params: ID_PARAMS,
      answer: z.array(pathSchema),
      refusals: [404],
    }),
    async ({ params: { id: flowId } }) => {
      if (catalog.find(flowId) === undefined) throw unknownId('flow', flowId);
      const [counts, drifts] = await Promise.all([store.of(driftStore).sumPathCounts(flowId), listDrifts(services)]);
      const own = triggers()
        .list()
        .filter(({ trigger }) => trigger.flowId === flowId);
      return own.flatMap((prepared) => pathsOf(prepared, counts, drifts));
    },
  );
};

function pathsOf(prepared: PreparedTrigger, counts: readonly PathCount[], drifts: readonly TriggerDrifts[]): Path[] {
  const { triggerKey } = prepared.trigger;
  const changed = drifts.find((each) => each.prepared === prepared)?.drifts ?? [];
  return readsOfTrigger(prepared).reads.flatMap(({ text: path, use, at: readAt }) => {
    const rows = counts.filter((row) => row.triggerKey === triggerKey && row.path === path);
    const events = rows.length === 0 ? [null] : [...new Set(rows.map(({ event }) => event))];
    return events.map((event): Path => {
      const figures = figuresOf(rows.filter((row) => row.event === event));
      const drift = changed.find((each) => each.event === event && each.path === path);
      return { triggerKey, event, path, use, readAt, ...figures, drift: drift === undefined ? null : driftView(drift) };
    });
  });
}

function figuresOf(rows: readonly PathCount[]): Pick<Path, 'looked' | 'seen' | 'types' | 'lastSeenAt'> {
  const types = new Map<PathType, number>();
  for (const row of rows) {
    const found = row.type === 'failed' ? 'absent' : row.type;
    types.set(found, (types.get(found) ?? 0) + row.count);
  }
  const looked = rows.reduce((sum, { count }) => sum + count, 0);
  const ids = rows.filter(({ type: found }) => found !== 'absent' && found !== 'failed').map(({ lastId }) => lastId);
  const last = ids.toSorted().at(-1);
  return {
    looked,
    seen: looked - (types.get('absent') ?? 0),
    types: [...types].sort(([, one], [, other]) => other - one).map(([name, count]) => ({ type: name, count })),
    lastSeenAt: last === undefined ? null : isoTime(timeOf(last)),
  };
}

function driftView({ firstAt, firstId, event: _event, path: _path, ...drift }: PathDrift): NonNullable<Path['drift']> {
  return { ...drift, since: isoTime(firstAt), firstDeliveryId: firstId };
}

/** A trigger whose deliveries lack what its flow reads. */
interface TriggerDrifts {
  readonly prepared: PreparedTrigger;
  readonly drifts: readonly PathDrift[];
}

/** Drifts of paths that the flows in force still read. */
async function listDrifts({
  store,
  triggers,
}: Pick<DashboardServices, 'store' | 'triggers'>): Promise<TriggerDrifts[]> {
  const found = await store.of(driftStore).listPathDrifts();
  return found.flatMap(({ flowId, triggerKey, drifts }) => {
    const prepared = triggers()
      .list()
      .find(({ trigger }) => sameTrigger(trigger, { flowId, triggerKey }));
    if (prepared === undefined) return [];
    const read = new Set(readsOfTrigger(prepared).reads.map(({ text }) => text));
    const own = drifts.filter(({ path }) => read.has(path));
    return own.length === 0 ? [] : [{ prepared, drifts: own }];
  });
}

const CALLED = {
  absent: 'absent',
  null: 'null',
  boolean: 'a boolean',
  number: 'a number',
  string: 'a string',
  array: 'an array',
  object: 'an object',
  mixed: 'of several types',
} as const satisfies Record<PathType, string>;

/** One item for each trigger: paths that change together have one cause, which the first one shows. */
function driftItems(all: readonly TriggerDrifts[]) {
  return all.flatMap(({ prepared: { trigger }, drifts }) => {
    const [first, ...others] = drifts.toSorted((one, other) => (one.firstId < other.firstId ? -1 : 1));
    if (first === undefined) return [];
    const { path, event, was, now, before, differing, failed, firstAt, firstId } = first;
    const runs =
      failed === 0 ? '' : `, whose runs failed for lack of it${failed === differing ? '' : ` in ${failed} cases`},`;
    const change = now === 'absent' ? `is missing from ${differing}${runs}` : `is ${CALLED[now]} in ${differing}`;
    const since = `since ${isoTime(firstAt).slice(0, 16)}Z`;
    const where = `${event === null ? '' : `event ${event}; `}the first is ${firstId}`;
    const more = others.length === 0 ? '' : `; ${others.length} more of its paths also changed`;
    const name = `${trigger.flowName}/${trigger.triggerKey}`;
    const key = encodeURIComponent(trigger.triggerKey);
    return [
      {
        kind: 'payload_drift' as const,
        message: `${name}: ${path}, ${CALLED[was]} in ${before} deliveries before, ${change} ${since} (${where})${more}`,
        link: `/flows/flows/${trigger.flowId}?view=payload&trigger=${key}`,
        triggerKey: trigger.triggerKey,
      },
    ];
  });
}

export const drift = servicePart({
  name: 'drift',
  routes: [pathRoutes],
  attention: rulesFor(driftAttention, async (_situation, services) => driftItems(await listDrifts(services))),
  start: (host) => ({ sweeper: createPayloadWatch(host) }),
});
