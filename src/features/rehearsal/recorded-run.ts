import { CommandError } from '../../commands/context.ts';
import { type Example, isLike, listPath, type ServiceClient } from '../../commands/service-client.ts';
import { declaredBy, parseBody } from '../../expressions/trigger-body.ts';
import { isJsonObject, isSame, type Json, own, parseJson } from '../../model/json.ts';
import { RUN_FLOW, type RunStatus, type RunTriggerType, type StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';

/** An ended run, with everything that a service keeps of it. */
export interface RecordedRun {
  readonly id: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly revision: number;
  readonly status: RunStatus;
  readonly triggerKey: string;
  readonly triggerType: RunTriggerType;
  readonly startedAt: string;
  readonly contentType: string | null;
  /** Names in lower case; values that the service does not show are redacted. */
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes that expressions read as the same value that started the run. */
  readonly body: Uint8Array;
  /** In manifest order; children follow their loop. */
  readonly steps: readonly RecordedStep[];
  /** Runs that its steps and its failure started, oldest first. */
  readonly derived: readonly DerivedRun[];
}

interface DerivedRun {
  /** Prefix of its step paths in a test: `go/` for the run of the step `go`, `go#2/` for its second run. */
  readonly prefix: string;
  readonly run: Omit<RecordedRun, 'contentType' | 'headers' | 'body'>;
}

export interface RecordedStep {
  readonly stepKey: string;
  readonly stepType: string;
  readonly status: StepStatus;
  readonly input: Json;
  readonly output: Json;
  readonly error: StepError | null;
  readonly attemptCount: number;
  /** ISO 8601; null if it did not end. */
  readonly completedAt: string | null;
  /** Oldest first. */
  readonly attempts: readonly RecordedAttempt[];
}

interface RecordedAttempt {
  readonly attempt: number;
  readonly status: StepStatus;
  /** Null if no inputs were read. */
  readonly inputsRevision: number | null;
  readonly output: Json;
  readonly error: StepError | null;
}

interface ServedRun extends Omit<DerivedRun['run'], 'steps' | 'derived'> {
  readonly deliveryId: string | null;
}

interface ServedTrigger {
  readonly triggerBody: Json;
  readonly triggerHeaders: Readonly<Record<string, string>>;
}

interface ServedDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** Reads a run. Throws `CommandError` if it is in flight, or if the service no longer has what a test needs. */
export async function readRecordedRun(client: ServiceClient, runId: string): Promise<RecordedRun> {
  const run = await readRun(client, runId);
  const { deliveries } = await ask<{ deliveries: number | null }>(client, `/flows/api/runs/${runId}/control`, {
    runId: '',
  });
  if (deliveries !== null && deliveries > 1) {
    throw new CommandError(
      `${deliveries} deliveries share the run ${runId}, and a test has one: what trigger.deliveries was cannot be saved`,
    );
  }
  return { ...run, ...(await readTrigger(client, run)) };
}

async function readRun(client: ServiceClient, runId: string): Promise<ServedRun & DerivedRun['run']> {
  const path = `/flows/api/runs/${runId}`;
  const run = await ask<ServedRun>(client, path, { id: '', flowId: '', status: '' });
  if (run.status === 'Running') throw new CommandError(`The run ${runId} is in flight; save it once it has ended`);
  const steps = await readSteps(client, path);
  return { ...run, steps, derived: await readDerived(client, path, steps) };
}

interface ServedLineage {
  readonly derived: readonly { readonly id: string; readonly relation: 'rerun' | 'failure' | 'subFlow' }[];
}

async function readDerived(client: ServiceClient, path: string, steps: readonly RecordedStep[]): Promise<DerivedRun[]> {
  const { derived } = await ask<ServedLineage>(client, `${path}/lineage`, { derived: [{ id: '', relation: '' }] });
  const known = steps
    .filter(({ stepType }) => stepType === RUN_FLOW)
    .flatMap(({ stepKey, attempts, output }) =>
      [...attempts.map((attempt) => attempt.output), output].flatMap((left) =>
        runIn(left).map((id) => ({ id, stepKey })),
      ),
    );
  const counts = new Map<string, number>();
  const runs: DerivedRun[] = [];
  for (const { id, relation } of derived) {
    if (relation === 'rerun') continue;
    const place = relation === 'failure' ? '(onFailure)' : known.find((each) => each.id === id)?.stepKey;
    if (place === undefined)
      throw new CommandError(`No step says that it started the run ${id}; it was perhaps retried`);
    const count = (counts.get(place) ?? 0) + 1;
    counts.set(place, count);
    runs.push({ prefix: count === 1 ? `${place}/` : `${place}#${count}/`, run: await readRun(client, id) });
  }
  return runs;
}

/** The run that a `RunFlow` step started, according to its output. */
function runIn(output: Json): string[] {
  const id = isJsonObject(output) ? own(output, 'runId') : undefined;
  return typeof id === 'string' ? [id] : [];
}

/** Whole numbers keep their exact value, however large. */
async function ask<Answer>(client: ServiceClient, path: string, like: Example = null): Promise<Answer> {
  const response = await client.open(path);
  const refuse = (why: string): never => {
    throw new CommandError(`${response.url}: the answer ${why}; is it a Sluice service?`);
  };
  const text = await response.text().catch(() => refuse('was cut off'));
  let answer: unknown;
  try {
    answer = parseJson(text);
  } catch {
    return refuse('is not JSON');
  }
  return isLike(answer, like) ? (answer as Answer) : refuse('is not that of the API');
}

/** The stored bytes of its delivery, if still kept: a step may send them on. */
async function readTrigger(
  client: ServiceClient,
  { id, deliveryId }: Pick<ServedRun, 'id' | 'deliveryId'>,
): Promise<Pick<RecordedRun, 'contentType' | 'headers' | 'body'>> {
  const { triggerBody, triggerHeaders } = await ask<ServedTrigger>(client, `/flows/api/runs/${id}/trigger`, {
    triggerHeaders: {},
  });
  const delivery = deliveryId === null ? undefined : await findDelivery(client, deliveryId);
  const headers = { ...triggerHeaders, ...delivery?.headers };
  const contentType = headers['content-type'] ?? (triggerBody === null ? null : 'application/json');
  const body = [...(delivery?.bytes ?? []), ...spellingsOf(triggerBody)].find((bytes) => {
    const parsed = parseBody(bytes, declaredBy({ contentType, headers }));
    return 'value' in parsed && isSame(parsed.value, triggerBody);
  });
  if (body !== undefined) return { contentType, headers, body };
  throw new CommandError(
    `The body that started the run ${id} is no longer stored byte for byte, and cannot be restored`,
  );
}

async function findDelivery(client: ServiceClient, deliveryId: string) {
  const path = `/flows/api/webhooks/${deliveryId}`;
  const { status, body } = await client.ask({ method: 'GET', path, accepts: [404], like: { headers: {} } });
  if (status === 404) return undefined;
  const { headers, body: text } = body as ServedDelivery;
  const bytes = text === null ? [] : [new Uint8Array(await (await client.open(`${path}/body`)).arrayBuffer())];
  return { headers, bytes };
}

/** Byte sequences that may have been read as this value. */
function spellingsOf(value: Json): Uint8Array[] {
  if (value === null) return [new Uint8Array()];
  const texts = [JSON.stringify(value), typeof value === 'string' ? value : '', formOf(value)];
  const base64 = isJsonObject(value) && typeof value.base64 === 'string' ? [value.base64] : [];
  return [...texts.map((text) => Buffer.from(text)), ...base64.map((text) => Buffer.from(text, 'base64'))];
}

function formOf(value: Json): string {
  if (!isJsonObject(value)) return '';
  const form = new URLSearchParams();
  for (const [name, given] of Object.entries(value)) {
    for (const each of [given].flat()) if (typeof each === 'string') form.append(name, each);
  }
  return form.toString();
}

type ServedStep = RecordedStep & {
  readonly truncated?: true;
  readonly attempts: readonly (RecordedAttempt & { readonly truncated?: true })[];
};

/** The most steps that the service returns at once. */
const STEPS_A_PAGE = 500;

async function readSteps(client: ServiceClient, run: string): Promise<RecordedStep[]> {
  const steps: RecordedStep[] = [];
  for (let skip = 0; ; skip += STEPS_A_PAGE) {
    const page = await ask<ServedStep[]>(client, listPath(`${run}/steps`, { skip, take: STEPS_A_PAGE }), [
      { stepKey: '' },
    ]);
    for (const step of page) steps.push(await withWholeValues(client, run, step));
    if (page.length < STEPS_A_PAGE) return steps;
  }
}

/** A page has only the beginning of large values, so these are loaded separately. */
async function withWholeValues(client: ServiceClient, run: string, step: ServedStep): Promise<RecordedStep> {
  const { stepKey, attempts, attemptCount } = step;
  if (attemptCount > attempts.length) {
    const cut = attemptCount - attempts.length;
    throw new CommandError(
      `The step ${stepKey} was tried ${attemptCount} times, and the first ${cut} can no longer be read`,
    );
  }
  const path = `${run}/steps/${encodeURIComponent(stepKey)}`;
  const whole: RecordedAttempt[] = [];
  for (const attempt of attempts) {
    const output = listPath(`${path}/output`, { attempt: attempt.attempt });
    whole.push(attempt.truncated ? { ...attempt, output: await ask(client, output) } : attempt);
  }
  if (!step.truncated) return { ...step, attempts: whole };
  const [input, output] = [await ask<Json>(client, `${path}/input`), await ask<Json>(client, `${path}/output`)];
  return { ...step, input, output, attempts: whole };
}
