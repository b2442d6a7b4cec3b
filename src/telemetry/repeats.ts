import type { LogFn, Logger } from 'pino';

const TELL_AGAIN_MS = 60_000;
/** Beyond it the oldest is forgotten, and told at once if it happens again. */
const MOST_CAUSES = 500;
type About = Readonly<Record<string, unknown>>;

/** What a cause wrote since it was told last, and how to tell of it; yields whether there was anything. */
interface Repeated {
  readonly counts: Map<string, number>;
  tell(): boolean;
}

/**
 * Limits lines that one cause may repeat without bound, such as a full disk: the first is written at once with its stack, and
 * while it goes on, one line a minute has the count. The cause of a line is its error: of a store that is unavailable,
 * whatever failed because of it. A line without an error names its `cause`, or is not limited. What fails because the
 * database is away is written at debug: the store says when it goes and when it is back.
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

/** Counts a line, and keeps the last one: it says most of what there is to say now. */
function repeat(repeated: Repeated, line: { about: About; text: string; write: LogFn }): void {
  const { text, write } = line;
  // What throws when it is read must not do so in the timer.
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
  // Where it was thrown, and not what it says: that may name what differs each time.
  return [text, err.name, code, err.stack?.split('\n').find((line) => line.startsWith('    at '))].join(' ');
}
