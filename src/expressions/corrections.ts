import { Duration } from '@marcbachmann/cel-js/evaluator';
import { isCalendarDay } from '../model/written-time.ts';
import { asInt, ConversionError, ofTimes } from './values.ts';

type Operands = readonly unknown[];
type Call = (operands: Operands) => unknown;

/**
 * Calls that the CEL library, 8.0, answers otherwise than CEL's definition (github.com/google/cel-spec, read 2026-11):
 * silently with another value, by the time zone of the process, or by UTF-16 units where `size` counts characters.
 */
export const CORRECTIONS: Readonly<Record<string, (operands: Operands, call: Call) => unknown>> = {
  int: (operands, call) => asInt(call(readable(operands, INTEGER, 'int() got a text that is not a whole number'))),
  uint(operands, call) {
    const [given] = operands;
    // The library makes 0 of -0.5.
    if (typeof given === 'number' && given < 0) throw new ConversionError('uint() got a number below 0');
    return call(readable(operands, INTEGER, 'uint() got a text that is not a whole number'));
  },
  double(operands, call) {
    const double = call(readable(operands, DOUBLE, 'double() got a text that is not a number'));
    const isWritten = typeof operands[0] === 'string' && /inf/i.test(operands[0]);
    if (!isWritten && Math.abs(Number(double)) === Number.POSITIVE_INFINITY)
      throw new ConversionError('double() got a number that is too large for it');
    return double;
  },
  type([given], call) {
    const type = call([given]);
    // The library takes the sum for a duration.
    if (given instanceof Date && Object(type).name === 'google.protobuf.Duration')
      throw new ConversionError('type() got the sum of a duration and a time; write the time first');
    return type;
  },
  duration: (operands, call) =>
    ofTimes('+', call(readable(operands, DURATION, 'duration() got a text that is not like 1h30m')), new Duration(0)),
  timestamp: ([given], call) => call([typeof given === 'string' ? toTime(given) : given]),
  string: ([given], call) => (given instanceof Uint8Array ? toText(given) : call([given])),
  split([text, separator, ...most], call) {
    const parts = call([text, separator, ...most]);
    if (typeof text !== 'string' || separator !== '' || !SURROGATE.test(text)) return parts;
    const characters = [...text];
    const limit = Number(most[0] ?? -1);
    if (limit < 0 || characters.length <= limit) return characters;
    return limit === 0 ? [] : [...characters.slice(0, limit - 1), characters.slice(limit - 1).join('')];
  },
  lowerAscii: ([text], call) => (typeof text === 'string' ? inOtherCase(text, 'A', 'Z') : call([text])),
  upperAscii: ([text], call) => (typeof text === 'string' ? inOtherCase(text, 'a', 'z') : call([text])),
  trim([text], call) {
    if (typeof text !== 'string') return call([text]);
    let [start, end] = [0, text.length];
    while (start < end && SPACE.test(text.charAt(start))) start += 1;
    while (end > start && SPACE.test(text.charAt(end - 1))) end -= 1;
    return text.slice(start, end);
  },
  substring: ([text, ...places], call) => call([text, ...places.map((place) => unitAt(text, place))]),
  indexOf: found('indexOf'),
  lastIndexOf: found('lastIndexOf'),
  getFullYear: field((date) => date.getUTCFullYear()),
  getMonth: field((date) => date.getUTCMonth()),
  getDate: field((date) => date.getUTCDate()),
  getDayOfMonth: field((date) => date.getUTCDate() - 1),
  getDayOfWeek: field((date) => date.getUTCDay()),
  getDayOfYear: field((date) => Math.round((date.getTime() - new Date(date).setUTCMonth(0, 1)) / DAY_MS)),
  getHours: field((date) => date.getUTCHours()),
  getMinutes: field((date) => date.getUTCMinutes()),
  getSeconds: field((date) => date.getUTCSeconds()),
  getMilliseconds: ([given, zone], call) =>
    given instanceof Duration ? BigInt(given.nanos) / 1_000_000n : milliseconds([given, zone], call),
};

const milliseconds = field((date) => date.getUTCMilliseconds());

const DAY_MS = 86_400_000;

const INTEGER = /^[+-]?\d+$/;
const DOUBLE = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)$/i;
const DURATION = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/;

function readable(operands: Operands, form: RegExp, problem: string): Operands {
  const [given] = operands;
  if (typeof given === 'string' && !form.test(given)) throw new ConversionError(problem);
  return operands;
}

/** RFC 3339, with a blank instead of its T as well. */
const TIME =
  /^(\d{4}-\d\d-\d\d)[Tt ]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d{1,3})\d*)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The same time in the form that the library reads. */
function toTime(text: string): string {
  const [, day = '', time, fraction = '0', zone = ''] = TIME.exec(text) ?? [];
  if (!isCalendarDay(day)) {
    throw new ConversionError('timestamp() got a text that is not a time as in 2026-01-31T12:00:00Z');
  }
  return `${day}T${time}.${fraction}${zone.toUpperCase()}`;
}

/** A mark of the byte order is a character of the text. */
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function toText(bytes: Uint8Array): string {
  try {
    return UTF_8.decode(bytes);
  } catch {
    throw new ConversionError('string() got bytes that are not text in UTF-8');
  }
}

/** With the letters from `first` to `last` in the other case. A replacement would call a function for every letter. */
function inOtherCase(text: string, first: string, last: string): string {
  const units = Buffer.from(text, 'utf16le');
  const [from, to] = [first.charCodeAt(0), last.charCodeAt(0)];
  for (let at = 0; at < units.length; at += 2) {
    const unit = units.readUInt16LE(at);
    if (unit >= from && unit <= to) units.writeUInt16LE(unit ^ 0x20, at);
  }
  return units.toString('utf16le');
}

/** White space of Unicode. To JavaScript, U+FEFF is white space too, and U+0085 is not. */
const SPACE = /[^\S\ufeff]|\x85/;

const SURROGATE = /[\ud800-\udfff]/;

/** The place of a character in UTF-16 units; one outside of the text stays so. */
function unitAt(text: unknown, place: unknown): unknown {
  if (typeof text !== 'string' || typeof place !== 'bigint' || place < 0n || !SURROGATE.test(text)) return place;
  let unit = 0;
  let left = place;
  for (; left > 0n && unit < text.length; left -= 1n) unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1;
  return BigInt(left > 0n ? text.length + 1 : unit);
}

function found(name: string) {
  return ([text, searched, ...from]: Operands, call: Call): unknown => {
    const places = from.map((place) => unitAt(text, place));
    const unit = call([text, searched, ...places]);
    if (typeof text !== 'string' || typeof unit !== 'bigint') return unit;
    // The library yields any place for an empty text, and refuses it for others.
    if (searched === '' && places.some((place) => Number(place) < 0 || Number(place) > text.length))
      throw new ConversionError(`${name}() got a place outside of the text`);
    if (unit < 0n || !SURROGATE.test(text)) return unit;
    return BigInt([...text.slice(0, Number(unit))].length);
  };
}

/** Of a time, in UTC or in the zone that is named: the library's own answers depend on the time zone of the process. */
function field(read: (date: Date) => number) {
  return ([given, zone]: Operands, call: Call): unknown => {
    if (!(given instanceof Date)) return call([given]);
    if (zone !== undefined && typeof zone !== 'string') return call([given, zone]);
    return BigInt(read(zone === undefined ? given : shiftedTo(given, zone)));
  };
}

/** A time whose fields in UTC are those of the given time in the zone. */
function shiftedTo(date: Date, zone: string): Date {
  const timeZone = /^\d\d:\d\d$/.test(zone) ? `+${zone}` : zone;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-US', { ...FIELDS, timeZone });
  } catch {
    throw new ConversionError('no time zone has the name that it got, as in "Europe/Berlin" or "+02:00"');
  }
  const parts = Object.fromEntries(format.formatToParts(date).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts;
  const shifted = new Date(0);
  shifted.setUTCFullYear(year, month - 1, day);
  shifted.setUTCHours(hour, minute, second, date.getUTCMilliseconds());
  return shifted;
}

const FIELDS = {
  calendar: 'gregory',
  hourCycle: 'h23',
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  hour: 'numeric',
  minute: 'numeric',
  second: 'numeric',
} as const;
