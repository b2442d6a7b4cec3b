import type { LogFn, Logger } from 'pino';

const TELL_AGAIN_MS = 60_000;
/** Beyond this, the oldest is forgotten, and logged at once if it happens again. */
const MOST_CAUSES = 500;
type About = Readonly<Record<string, unknown>>;

/** The lines of a cause since its last report; `tell` reports them and yields whether there were any. */
interface Repeated {
  readonly counts: Map<string, number>;
  tell(): boolean;
}

/**
 * Limits lines that one cause can repeat without end, such as a full disk: the first is written at once with its stack,
 * then one line a minute has the count. The cause of a line is its error; if the store is unavailable, that is the
 * cause of everything that fails. A line without an error names its `cause`, or is not limited. Failures because the
 * database is away are written at debug: the store logs when it goes and when it is back.
 */
export function limitRepeats() {
  const causes = new Map<string, Repeated>();
  return {
    log(logger: Logger, args: Parameters<LogFn>, write: LogFn): void {
      const [about, text] = args as unknown as [About, string];
      const cause = causeOf(about, text);
      if (cause === 'away') return void logger.debug(about, text);
      const repeated = cause === undefined ? undefined : causes.get(cause);
      if (repeated === undefined) write.apply(logger, args);
      else repeat(repeated, { about, text, write: write.bind(logger) });
      if (cause !== undefined && repeated === undefined) begin(cause);
    },
    flush: () => causes.forEach((repeated) => void repeated.tell()),
  };

  function begin(cause: string): void {
    const [oldest] = causes.size < MOST_CAUSES ? [] : causes.keys();
    if (oldest !== undefined) causes.delete(oldest);
    const repeated = { counts: new Map(), tell: () => false };
    causes.set(cause, repeated);
    const timer = setInterval(() => {
      if (repeated.tell()) return;
      clearInterval(timer);
      if (causes.get(cause) === repeated) causes.delete(cause);
    }, TELL_AGAIN_MS).unref();
  }
}

/** Counts a line, and keeps the last one as the most current. */
function repeat(repeated: Repeated, line: { about: About; text: string; write: LogFn }): void {
  const { text, write } = line;
  // An error that throws when it is read must not do so in the timer.
  const { err, ...fields } = line.about;
  const why = err instanceof Error ? err.message : undefined;
  const { counts } = repeated;
  counts.set(text, (counts.get(text) ?? 0) + 1);
  repeated.tell = () => {
    const times = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const lines = counts.size > 1 ? Object.fromEntries(counts) : undefined;
    if (times > 0) write({ ...fields, why, times, lines }, `${text} (${times} such lines of one cause)`);
    counts.clear();
    return times > 0;
  };
}

function causeOf(about: unknown, text: unknown): string | undefined {
  if (typeof about !== 'object' || about === null || typeof text !== 'string') return undefined;
  const { err, cause, eventName } = about as About;
  if (typeof cause === 'string') return cause;
  if (!(err instanceof Error)) return undefined;
  const { code = '' } = (err.cause ?? err) as { readonly code?: string };
  if ('isAway' in err) {
    // Operators' alerts match on numbered events, which no other line may hide.
    if (eventName !== undefined) return `${eventName} ${code || err.message}`;
    return err.isAway === true ? 'away' : code || err.message;
  }
  // Where it was thrown, not the message, which can differ each time.
  return [text, err.name, code, err.stack?.split('\n').find((line) => line.startsWith('    at '))].join(' ');
}
