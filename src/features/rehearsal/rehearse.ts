import type { Logger } from 'pino';
import { StoreUnavailableError } from '../../errors.ts';
import { formatPath } from '../../expressions/json-path.ts';
import { type Catalog, type DeployedFlow, deployedAnew } from '../../flows/catalog.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { isSame } from '../../model/json.ts';
import { type EnforcementMode, flowsStartedBy } from '../../model/manifest.ts';
import type { Store } from '../../store/store.ts';
import type { GatePreparer } from '../../webhooks/gates/index.ts';
import { createTriggerTable, type PreparedTrigger } from '../../webhooks/triggers.ts';
import { type AnsweredRun, type AnswerTable, answersFrom, createAnsweredSimulator, isSameRequest } from './answered.ts';
import type { Answer, AnswerCall, Call } from './calls.ts';
import { compareRuns, departureOf } from './compare.ts';
import { judgeBoth } from './gate-outcomes.ts';
import { type RecordedRun, readRecorded } from './recorded.ts';
import type { TestProblem } from './saved-test.ts';
import { type ExampleRoom, type FlowRehearsal, type Judged, Tally, withoutIndexes } from './tally.ts';
import { problemOfPath } from './unknown-names.ts';

interface RehearserServices {
  readonly store: Pick<Store, 'listDeliveries' | 'findDelivery' | 'findRun' | 'pageSteps' | 'of'>;
  /** Opens an empty store in memory that yields the event loop to others. */
  readonly openStore: () => Promise<Store>;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly handlers: HandlerTable;
  /** The gates fetch nothing. */
  readonly gates: GatePreparer;
  readonly defaultMode: EnforcementMode;
  readonly logger: Logger;
}

interface RehearsalRequest {
  /** All flows that are to be deployed together. */
  readonly flows: readonly LoadedFlow[];
  /** Number of newest deliveries rehearsed for each flow. */
  readonly deliveries: number;
  /** By flow id: answers to calls that no recorded run answers. */
  readonly answers: Readonly<Record<string, AnswerTable>>;
  /** The credential of the caller, which may have one rehearsal at a time. */
  readonly credential: string;
  /** Whether the caller still waits for the result. */
  readonly isWanted: () => boolean;
}

/** Runs stored deliveries through deployed and new revisions, and reports differences. Sends and stores nothing. */
interface Rehearser {
  /** Rehearses deployed flows that change, or that run a changed flow. Yields `own` or `full` if there is no room. */
  rehearse(request: RehearsalRequest): Promise<FlowRehearsal[] | 'own' | 'full'>;
  /** Answers for flows and steps that exist neither now nor after the deploy. */
  unknownAnswers(request: Pick<RehearsalRequest, 'flows' | 'answers'>): TestProblem[];
}

/** Rehearsals that share the event loop, each of a different credential. */
const AT_ONCE = 2;
/** For a whole rehearsal. A proxy in front of the service waits one minute for an answer. */
const TIME_LIMIT_MS = 50_000;
/** Attempts of one simulated run. */
const MAX_ATTEMPTS = 2000;
/** Of one simulated run: far more than a recorded run may have, yet little enough for the service next to its work. */
const MAX_RUN_BYTES = 16 * 1024 * 1024;
/** Limits of one store in memory, which keeps every run: then the next one is opened. */
const A_STORE = { runs: 20, bytes: 16 * 1024 * 1024 };
/** Total for the examples of all flows. */
const MAX_EXAMPLE_CHARACTERS = 4_000_000;
const PAGE = 100;

export function createRehearser(services: RehearserServices): Rehearser {
  const running = new Set<string>();
  return {
    async rehearse(request) {
      const { credential } = request;
      if (running.has(credential)) return 'own';
      if (running.size >= AT_ONCE) return 'full';
      running.add(credential);
      try {
        const endsAt = performance.now() + TIME_LIMIT_MS;
        const room = { characters: MAX_EXAMPLE_CHARACTERS };
        const rehearsed: FlowRehearsal[] = [];
        for (const flow of request.flows) {
          const one = await rehearseFlow(flow, { ...request, endsAt, room }, services);
          if (one !== undefined) rehearsed.push(one);
        }
        return rehearsed;
      } finally {
        running.delete(credential);
      }
    },
    unknownAnswers({ flows, answers }) {
      const inForce = asOfNow(services.catalog);
      const deployed = (flowId: string) => inForce(flowId)?.loaded;
      const next = new Map(flows.map((flow) => [flow.manifest.id, flow]));
      const coming = (flowId: string) => next.get(flowId) ?? deployed(flowId);
      return Object.entries(answers).flatMap(([id, table]): TestProblem[] => {
        const found = [coming, deployed].flatMap((find) => {
          const flow = find(id);
          return flow === undefined ? [] : [{ flow, flows: [flow, ...startedBy(flow, find)] }];
        });
        if (found.length === 0) {
          return [{ path: formatPath(['answers', id]), message: 'no manifest and no deployed flow has this id' }];
        }
        return Object.keys(table).flatMap((path) => {
          const [message, ...others] = found.map(({ flow, flows: known }) => problemOfPath(path, flow, known));
          if (message === undefined || others.includes(undefined)) return [];
          return [{ path: formatPath(['answers', id, path]), message }];
        });
      });
    },
  };
}

type Asked = RehearsalRequest & { readonly endsAt: number; readonly room: ExampleRoom };

async function rehearseFlow(
  after: LoadedFlow,
  request: Asked,
  services: RehearserServices,
): Promise<FlowRehearsal | undefined> {
  const { id, name } = after.manifest;
  const inForce = asOfNow(services.catalog);
  const loadedIn = (flowId: string) => inForce(flowId)?.loaded;
  const deployed = inForce(id);
  if (deployed === undefined) return undefined;
  const next = new Map(request.flows.map((flow) => [flow.manifest.id, flow]));
  const stages = [
    new Stage(deployed.loaded, loadedIn, services),
    new Stage(after, (flowId) => next.get(flowId) ?? loadedIn(flowId), services),
  ] as const;
  if (stages[0].fingerprint === stages[1].fingerprint) return undefined;
  const given = Object.hasOwn(request.answers, id) ? answersFrom(request.answers[id] ?? {}) : () => undefined;
  const tally = new Tally(request.room);
  let isStopped = false;
  try {
    for await (const record of deliveriesOf(id, request.deliveries, services.store)) {
      const milliseconds = request.endsAt - performance.now();
      isStopped = milliseconds <= 0 || !request.isWanted();
      if (isStopped) break;
      tally.add(await judge(record, { id, stages, inForce, given, milliseconds }, services));
    }
  } finally {
    for (const stage of stages) await stage.close();
  }
  return tally.result({ flowId: id, name, revision: deployed.record.revision, isStopped });
}

type InForce = (flowId: string) => DeployedFlow | undefined;

/** Remembers each flow as first seen, so that a deploy during the rehearsal changes neither side of the comparison. */
function asOfNow(catalog: RehearserServices['catalog']): InForce {
  const found = new Map<string, DeployedFlow | undefined>();
  return (flowId) => {
    if (!found.has(flowId)) found.set(flowId, catalog.find(flowId));
    return found.get(flowId);
  };
}

/** The newest deliveries of a flow, newest first. */
async function* deliveriesOf(flowId: string, count: number, store: RehearserServices['store']) {
  const seen = new Set<string>();
  for (let skip = 0; seen.size < count; skip += PAGE) {
    const { items } = await store.listDeliveries({ flowId, skip, take: PAGE });
    for (const { id } of items) {
      // A new delivery shifts the pages, so a known one can appear again.
      if (seen.has(id) || seen.size === count) continue;
      seen.add(id);
      const record = await store.findDelivery(id);
      if (record !== undefined) yield record;
    }
    if (items.length < PAGE) return;
  }
}

interface Rehearsed {
  readonly id: string;
  readonly stages: readonly [before: Stage, after: Stage];
  readonly inForce: InForce;
  readonly given: AnswerCall;
  readonly milliseconds: number;
}

async function judge(record: DeliveryRecord, rehearsed: Rehearsed, services: RehearserServices): Promise<Judged> {
  const about = { deliveryId: record.id, receivedAt: record.receivedAt };
  try {
    return { ...about, ...(await judgeDelivery(record, rehearsed, services)) };
  } catch (error) {
    if (error instanceof StoreUnavailableError) throw error;
    services.logger.error({ err: error, deliveryId: record.id }, 'a delivery could not be rehearsed');
    return { ...about, runId: null, skipped: 'it could not be rehearsed; the log of the service says why' };
  }
}

async function judgeDelivery(
  record: DeliveryRecord,
  { id, stages: [before, after], inForce, given, milliseconds }: Rehearsed,
  { store }: RehearserServices,
): Promise<Omit<Judged, 'deliveryId' | 'receivedAt'>> {
  const own = ofFlow(record, id);
  const { runId, triggerKey } = own;
  const trigger = before.triggerOf(triggerKey);
  if (trigger === undefined) return { runId, skipped: 'its trigger is not deployed any more' };
  const next = after.reachedAs(trigger);
  const gates = await judgeBoth({ ...record, ...own }, trigger, next);
  const [one, other] = [gates.before, gates.after];
  const unknown = 'why' in one ? [`gates: ${one.why}`] : 'why' in other ? [`gates: ${other.why}`] : [];
  if (!('why' in one) && !('why' in other) && one.outcome !== other.outcome) {
    const changes = [{ path: '', before: one.outcome, after: other.outcome }];
    return { runId, differences: [{ kind: 'gates', at: 'gates', changes }], unknown };
  }
  const isStopped = [one, other].some((outcome) => !('why' in outcome) && !outcome.starts);
  if (runId === null || isStopped) return { runId, differences: [], unknown };
  if (record.isHeld === true) return { runId, skipped: 'it is held, and its run has not begun' };
  const recorded = await readRecorded(runId, store, ({ flowId, revision }) => {
    return inForce(flowId)?.record.revision === revision;
  });
  if (typeof recorded === 'string') return { runId, skipped: recorded };
  const limits = { steps: MAX_ATTEMPTS, milliseconds, bytes: MAX_RUN_BYTES };
  const got: Got[] = [];
  const was = await before.run(recorded, recorded.run.triggerKey, {
    limits,
    answer(call) {
      const answer = recorded.answer(call) ?? given(call);
      got.push({ call, answer });
      return answer;
    },
  });
  const departure = departureOf(recorded, was);
  if (departure !== undefined) return { runId, skipped: `${DEPARTS} ${withoutIndexes(departure)}` };
  const is = await after.run(recorded, next?.trigger.triggerKey ?? recorded.run.triggerKey, {
    limits,
    answer: (call) => answerAgain(call, got) ?? given(call),
  });
  if (was.stoppedBy !== null || is.stoppedBy !== null)
    return { runId, skipped: 'it takes too many steps, too much memory, or too long' };
  const unanswered = [...new Set([...was.unanswered, ...is.unanswered])].map(withoutIndexes);
  return { runId, differences: compareRuns(was, is), unknown: [...unknown, ...unanswered] };
}

const DEPARTS = 'the deployed revision takes another way than its run did, at';

/** A call of the deployed revision, and the answer it got. */
interface Got {
  readonly call: Call;
  readonly answer: Answer | undefined;
}

/** The same call gets the same answer, whatever else changed in the step. */
function answerAgain({ path, attempt, type, input, request }: Call, got: readonly Got[]): Answer | undefined {
  return got.find(({ call }) => {
    const isOfStep = call.path === path && call.attempt === attempt && call.type === type;
    return isOfStep && (request === null ? isSame(call.input, input) : isSameRequest(call.request, request));
  })?.answer;
}

/** The outcome of a shared delivery at one of its flows. */
function ofFlow({ flowId, triggerKey, runId, shares = [] }: DeliveryRecord, id: string) {
  const share = shares.find((each) => each.flowId === id);
  if (flowId === id || share === undefined) return { flowId, triggerKey, runId };
  return { flowId: id, triggerKey: share.triggerKey, runId: share.runId };
}

/** One revision of a flow and the flows that it starts, with its own store in memory. */
class Stage {
  readonly #flow: LoadedFlow;
  readonly #flows: readonly LoadedFlow[];
  readonly #services: RehearserServices;
  #triggers: readonly PreparedTrigger[] | undefined;
  #open: { readonly store: Store; readonly simulator: Awaited<ReturnType<typeof createAnsweredSimulator>> } | undefined;
  #runs = 0;
  #bytes = 0;

  constructor(flow: LoadedFlow, find: (flowId: string) => LoadedFlow | undefined, services: RehearserServices) {
    this.#flow = flow;
    this.#flows = startedBy(flow, find);
    this.#services = services;
  }

  /** Equal for stages that run deliveries in the same way. */
  get fingerprint(): string {
    return [this.#flow, ...this.#flows].map(({ hash }) => hash).join(' ');
  }

  triggerOf(triggerKey: string | null): PreparedTrigger | undefined {
    return this.#all().find(({ trigger }) => trigger.triggerKey === triggerKey);
  }

  /** The trigger that publishers now reach at the URL of the former trigger. */
  reachedAs({ trigger: { triggerKey, inputs } }: PreparedTrigger): PreparedTrigger | undefined {
    const slug = inputs.webhookSlug?.toLowerCase();
    if (slug === undefined) return this.triggerOf(triggerKey);
    return this.#all().find(({ trigger }) => trigger.inputs.webhookSlug?.toLowerCase() === slug);
  }

  #all(): readonly PreparedTrigger[] {
    const { gates: preparer, defaultMode } = this.#services;
    this.#triggers ??= createTriggerTable({ flows: [deployedAnew(this.#flow)], preparer, defaultMode }).list();
    return this.#triggers;
  }

  async run(
    { run: { trigger, triggerType, startedAt: at }, signals, awaiting }: RecordedRun,
    triggerKey: string,
    given: Pick<Parameters<Simulator['run']>[0], 'answer' | 'limits'>,
  ): Promise<AnsweredRun> {
    if (this.#runs >= A_STORE.runs || this.#bytes >= A_STORE.bytes) await this.close();
    this.#open ??= await this.#start();
    const own = { ...trigger, key: triggerKey };
    const run = await this.#open.simulator.run({ ...given, trigger: own, triggerType, at, signals, awaiting });
    this.#runs += 1;
    this.#bytes += run.bytes + trigger.body.byteLength;
    return run;
  }

  async close(): Promise<void> {
    await this.#open?.store.close();
    this.#open = undefined;
    this.#runs = 0;
    this.#bytes = 0;
  }

  async #start() {
    const store = await this.#services.openStore();
    const { handlers } = this.#services;
    return {
      store,
      simulator: await createAnsweredSimulator({ store, flow: this.#flow, flows: this.#flows, handlers }),
    };
  }
}

type Simulator = Awaited<ReturnType<typeof createAnsweredSimulator>>;

/** Flows that runs of a flow start, directly or indirectly, by steps or by failure. */
function startedBy(flow: LoadedFlow, find: (flowId: string) => LoadedFlow | undefined): LoadedFlow[] {
  const found = new Map<string, LoadedFlow>();
  const add = ({ manifest }: LoadedFlow) => {
    for (const flowId of flowsStartedBy(manifest)) {
      const started = flowId === flow.manifest.id || found.has(flowId) ? undefined : find(flowId);
      if (started === undefined) continue;
      found.set(flowId, started);
      add(started);
    }
  };
  add(flow);
  return [...found.values()];
}
