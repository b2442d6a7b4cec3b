import { printable } from '../model/text.ts';

/** Levels by pino's numbers. */
const LEVELS: Readonly<Record<number, { readonly name: string; readonly color: number }>> = {
  10: { name: 'TRACE', color: 90 },
  20: { name: 'DEBUG', color: 90 },
  30: { name: 'INFO', color: 32 },
  40: { name: 'WARN', color: 33 },
  50: { name: 'ERROR', color: 31 },
  60: { name: 'FATAL', color: 31 },
};

/** Fields that are the same in every line, or shown differently. */
const NOT_LISTED: ReadonlySet<string> = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'err', 'eventName']);

/**
 * A line of pino's log for a person at a terminal: time of day, level, message, then the fields as `name=value`, and
 * the stack of an error on separate lines. Other lines are unchanged, except for control characters.
 */
export function readableLine(line: string, { hasColors }: { readonly hasColors: boolean }): string {
  const paint = (color: number, text: string) => (hasColors ? `\u001b[${color}m${text}\u001b[0m` : text);
  const entry = parse(line);
  if (entry === undefined) return `${printable(line.trimEnd())}\n`;
  const { name, color } = LEVELS[Number(entry.level)] ?? { name: String(entry.level ?? ''), color: 0 };
  const fields = Object.entries(entry).filter(([key]) => !NOT_LISTED.has(key));
  const shown = fields.map(([key, value]) => paint(90, printable(`${key}=${textOf(value)}`)));
  const message = printable(String(entry.msg ?? entry.eventName ?? ''));
  const head = [paint(90, timeOfDay(entry.time)), paint(color, name.padEnd(5)), message, ...shown].join(' ').trimEnd();
  return [head, ...errorLines(entry.err).map((each) => `    ${printable(each)}`), ''].join('\n');
}

function parse(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === 'object' && entry !== null ? (entry as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function timeOfDay(time: unknown): string {
  const at = new Date(typeof time === 'number' ? time : Number.NaN);
  if (Number.isNaN(at.getTime())) return '';
  const two = (part: number) => String(part).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

function errorLines(error: unknown): string[] {
  if (typeof error !== 'object' || error === null) return error === undefined ? [] : [textOf(error)];
  const { stack, message } = error as { stack?: unknown; message?: unknown };
  return String(stack ?? message ?? JSON.stringify(error)).split('\n');
}
