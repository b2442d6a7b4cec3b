import { StoreUnavailableError } from '../../errors.ts';
import { parseJson } from '../../model/json.ts';
import type { AcceptResult, HoldResult, LargeRunInput, RunInput, Store } from '../store.ts';
import { acceptanceValues, runValues } from './accept.ts';
import { deliveryValues } from './deliveries.ts';
import { heldValues } from './holds.ts';
import { inMemory, type StoreOptions } from './messages.ts';
import { type AnsweredInput, type OperationName, operationNames, threadOf } from './operations.ts';
import { StoreThread } from './thread.ts';

const NO_BODY = new Uint8Array(0);

const UNBOUNDED = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

export interface SqliteStoreOptions {
  /** A file, made with its folders where there is none, or `:memory:`. */
  readonly path: string;
  /** Called once when a thread of the store has ended by itself; every call rejects from then on. */
  readonly onFatal?: (error: Error) => void;
  /** Called once when the database file was removed or replaced; whatever writes rejects from then on. */
  readonly onLost?: (error: Error) => void;
  /** The delivery log: in the database and unbounded where not given. */
  readonly log?: StoreOptions['log'];
  /** What may be held; unbounded where not given. */
  readonly held?: StoreOptions['held'];
}

/**
 * Opens the store on a SQLite database: one thread that writes and one that reads, so that neither a slow disk nor a
 * slow query holds the event loop, and no query holds a commit. Rejects with an error that names the path where the
 * database cannot be opened, is another program's, is newer than this release or is in use by another process.
 */
export async function openSqliteStore({ path, onFatal, onLost, ...given }: SqliteStoreOptions): Promise<Store> {
  const options: StoreOptions = { log: given.log ?? { inMemory: false, ...UNBOUNDED }, held: given.held ?? UNBOUNDED };
  let isOpen = false;
  const die = (error: Error) => {
    void abandon(error);
    if (isOpen) onFatal?.(error);
  };
  const writer = new StoreThread('writer', {
    onDeath: die,
    onLost: (error) => onLost?.(error),
    onLogGrown: () => reader.post({ kind: 'checkpoint' }),
  });
  const reader =
    path === inMemory
      ? writer
      : new StoreThread('reader', { onDeath: die, onCheckpointed: () => writer.post({ kind: 'checkpointed' }) });
  const abandon = (error: Error) => Promise.all([writer.abandon(error), reader.abandon(error)]);

  try {
    await writer.open(path, options);
    if (reader !== writer) await reader.open(path, options);
    isOpen = true;
  } catch (error) {
    await abandon(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }

  const threads = { writer, reader };
  const members = Object.fromEntries(
    operationNames.map((name) => {
      const thread = threads[threadOf(name, options)];
      return [name, (...args: unknown[]) => thread.call(name, args)];
    }),
  );
  return {
    // Messages have no type; the table of operations types both their ends.
    ...(members as Pick<Store, OperationName>),
    accept: (acceptance) =>
      writer.call('accept', [acceptanceValues(acceptance)], acceptance.run.trigger.body) as Promise<AcceptResult>,
    async holdDelivery(acceptance) {
      const values = [acceptanceValues(acceptance), heldValues(acceptance.run)];
      const result = (await writer.call('holdDelivery', values, acceptance.run.trigger.body)) as HoldResult | 'full';
      if (result === 'full') throw new StoreUnavailableError('as many deliveries are held as may be');
      return result;
    },
    recordDelivery: (record) => writer.call('recordDelivery', [deliveryValues(record)], record.body) as Promise<void>,
    fireSchedule: ({ run, ...tick }) =>
      writer.call(
        'fireSchedule',
        [{ ...tick, run: run && runValues(run) }],
        run?.trigger.body ?? NO_BODY,
      ) as ReturnType<Store['fireSchedule']>,
    ...valueMembers(writer, reader),
    async close() {
      writer.refuse();
      await reader.close();
      // The writer goes last: it tidies the files up, which it can only do alone.
      await writer.close();
    },
  };
}

/** The members whose values of flows cross threads as JSON text. */
function valueMembers(writer: StoreThread, reader: StoreThread) {
  const ask = async <Value>(thread: StoreThread, name: OperationName, args: readonly unknown[]): Promise<Value> => {
    const text = (await thread.call(name, args)) as string | undefined;
    return (text === undefined ? undefined : parseJson(text)) as Value;
  };
  return {
    advance: (outcome) => writer.call('advance', [JSON.stringify(outcome)]) as ReturnType<Store['advance']>,
    deliverSignal: (signal) =>
      writer.call('deliverSignal', [JSON.stringify(signal)]) as ReturnType<Store['deliverSignal']>,
    claimDue: (request) => ask(writer, 'claimDue', [request]),
    claimOverdue: (request) => ask(writer, 'claimOverdue', [request]),
    listSteps: (...args) => ask(reader, 'listSteps', args),
    findStep: (...args) => ask(reader, 'findStep', args),
    pageSteps: (...args) => ask(reader, 'pageSteps', args),
    async readRunInput(...args) {
      const answer = (await reader.call('readRunInput', args)) as AnsweredInput | LargeRunInput | undefined;
      if (answer === undefined || answer.kind !== undefined) return answer;
      return { trigger: answer.trigger, steps: parseJson(answer.steps) as unknown as RunInput['steps'] };
    },
  } satisfies Partial<Store>;
}
