/** Longer than a sentence; a kind names a group, and is part of a URL. */
const MAX_CHARACTERS = 200;

/** Ids, times, numbers of four digits or more, numbers in a path, and line ends. */
const VARYING =
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z?|\b(?=\w*\d)\w{8,}\b|\d{4,}|(?<=\/)\d+(?![^/\s])|\s*[\n\r\t]\s*/gi;

/** Matches anything, in a kind and in a filter. */
export const ANYTHING = '…';

/** A message without its varying parts, so that the same failure of many runs has one kind. */
export function kindOfError(message: string): string {
  // Only the beginning of a very long message is visible.
  const kind = message.slice(0, MAX_CHARACTERS * 5).replace(VARYING, ANYTHING);
  return kind.length <= MAX_CHARACTERS
    ? kind
    : `${kind.slice(0, MAX_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}${ANYTHING}`;
}

/** The code of an error or of its cause, or else its name: a message may contain a path, a request or a secret. */
export function codeOf(error: unknown): string {
  const seen = new Set<unknown>();
  let cause = readable(error);
  while (cause instanceof Error) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
    seen.add(cause);
    const next = readable(cause.cause);
    // An error that is its own cause, directly or not, leads no further.
    if (cause.name !== 'Error' || !(next instanceof Error) || seen.has(next)) return cause.name;
    cause = next;
  }
  return 'unknown';
}

/** The error, or another one that says so if reading it throws, as an error of an operator's code can. */
export function readable(error: unknown): unknown {
  const { message } = writable(error, 0);
  return message === UNREADABLE ? new Error(message) : error;
}

const UNREADABLE = 'what was thrown cannot be read';
/** People would not read more, and there can be thousands. */
const MOST_CAUSES = 5;

/**
 * A loggable copy of anything that was thrown, or of the error in the fields of a log line: only texts. A logger marks
 * the error, which may be frozen, and reads its properties and causes, which may throw.
 */
export function writable(given: unknown, causes = MOST_CAUSES): Error {
  try {
    const thrown: unknown = given instanceof Error ? given : (Object(given).err ?? given);
    if (!(thrown instanceof Error)) return new Error(Object(thrown) === thrown ? 'no error' : String(thrown));
    const { name, message, stack = '', cause } = thrown;
    const texts = [name, message, stack, String('code' in thrown && thrown.code)];
    if (texts.some((text) => typeof text !== 'string')) return new Error(UNREADABLE);
    const because = cause === undefined || causes === 0 ? {} : { cause: writable(cause, causes - 1) };
    return Object.assign(new Error(message, because), { stack });
  } catch {
    return new Error(UNREADABLE);
  }
}
