import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { readableLine } from '../../src/telemetry/readable-log.ts';

/** The terminal's text for one call of the logger, without the time of day. */
function shown(write: (logger: pino.Logger) => void, { hasColors = false } = {}): string {
  const lines: string[] = [];
  write(pino({ level: 'trace' }, { write: (line) => lines.push(readableLine(line, { hasColors })) }));
  return lines.join('').replace(/^\S*\d\d:\d\d:\d\d\S* /, '');
}

describe('a line of the log on a terminal', () => {
  it('has level, message and fields, without what is the same in every line', () => {
    const line = shown((logger) => logger.info({ eventId: 1000, eventName: 'RunStarted', runId: 'r1' }, 'RunStarted'));
    expect(line).toBe('INFO  RunStarted eventId=1000 runId=r1\n');
  });

  it('quotes values with blanks and shows objects as JSON', () => {
    expect(shown((logger) => logger.warn({ detail: 'a b', list: [1, { x: 2 }] }, 'told'))).toBe(
      'WARN  told detail="a b" list=[1,{"x":2}]\n',
    );
  });

  it('shows the stack of an error in lines of its own', () => {
    const [first, second, third] = shown((logger) => logger.error({ err: new Error('broken') }, 'it failed')).split(
      '\n',
    );
    expect([first, second]).toEqual(['ERROR it failed', '    Error: broken']);
    expect(third).toMatch(/^ {8}at /);
  });

  it.each([
    ['an escape sequence', '\u001b[2J', '\\u001b[2J'],
    ['the one-character form of one', '\u009b2J', '\\u009b2J'],
    ['a line break', 'a\nINFO forged', 'a\\nINFO forged'],
    ['a change of direction', 'a\u202eb', 'a\\u202eb'],
  ])('escapes %s that a sender chose, in a field and in the message', (_, sent, escaped) => {
    const ofField = shown((logger) => logger.info({ path: sent }, 'told'));
    expect(ofField).toContain(escaped);
    const ofMessage = shown((logger) => logger.info(sent));
    for (const line of [ofField, ofMessage]) expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  it('has colours only where the terminal shows them', () => {
    const log = (logger: pino.Logger) => logger.warn({ a: 1 }, 'told');
    expect(shown(log)).not.toContain('\u001b');
    expect(shown(log, { hasColors: true })).toContain('\u001b[33mWARN \u001b[0m told');
  });

  it('stays as it is if it is not from the logger', () => {
    expect(readableLine('plain\u001b text\n', { hasColors: false })).toBe('plain\\u001b text\n');
  });
});
