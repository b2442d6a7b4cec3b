import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../../src/config/steps.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { logMessage, noOp } from '../../../src/flows/handlers/plain-steps.ts';
import { call } from './call.ts';

function recordingLogger() {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  return { lines, logger };
}

describe('the handler table', () => {
  it('has the built-in step types', () => {
    expect([...handlerTable(stepTypes().handlers).keys()]).toEqual([
      'NoOp',
      'LogMessage',
      'Delay',
      'Transform',
      'Fail',
      'WaitForSignal',
      'ForEach',
      'RunFlow',
      'HttpRequest',
      'SendAlert',
    ]);
  });

  it('refuses two handlers of one type', () => {
    const own = { ...noOp, type: 'HttpRequest' };
    expect(() => handlerTable([...stepTypes().handlers, own])).toThrow('"HttpRequest"');
  });
});

describe('NoOp', () => {
  it.each([{}, { any: ['thing'] }])('succeeds with null for %j', async (inputs) => {
    expect(await call(noOp, inputs)).toEqual({ kind: 'succeeded', output: null });
  });
});

describe('LogMessage', () => {
  it.each([
    ['a text as it is', { message: 'hello' }, 30, 'hello'],
    ['other JSON as JSON', { message: { a: [1] } }, 30, '{"a":[1]}'],
    ['null', { message: null }, 30, 'null'],
    ['at the level given', { message: 'x', level: 'warn' }, 40, 'x'],
  ])('logs %s', async (_what, inputs, level, msg) => {
    const { lines, logger } = recordingLogger();
    expect(await call(logMessage, inputs, { logger })).toEqual({ kind: 'succeeded', output: inputs.message });
    expect(lines).toMatchObject([{ level, msg }]);
  });

  it.each([
    ['no message', {}],
    ['a level that is none', { message: 'x', level: 'silent' }],
    ['a misspelt name', { message: 'x', lvl: 'info' }],
  ])('refuses %s', (_what, inputs) => {
    expect(logMessage.inputs.safeParse(inputs).success).toBe(false);
  });
});
