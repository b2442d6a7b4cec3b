import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createTurnLines } from '../../src/telemetry/service-log.ts';

function open() {
  const handedOn: string[] = [];
  return { handedOn, lines: createTurnLines((text) => handedOn.push(text)) };
}

describe('the lines of a turn', () => {
  it('are handed on in order: the first at once, those behind it together when the turn ends', async () => {
    const { handedOn, lines } = open();
    for (const line of ['1\n', '2\n', '3\n']) lines.write(line);
    expect(handedOn).toEqual(['1\n']);
    await setImmediate();
    expect(handedOn).toEqual(['1\n', '2\n3\n']);
  });

  it('wait for no other turn', async () => {
    const { handedOn, lines } = open();
    for (const line of ['1\n', '2\n']) {
      lines.write(line);
      await setImmediate();
    }
    expect(handedOn).toEqual(['1\n', '2\n']);
  });

  it('are handed on before that where the process ends, and once', async () => {
    const { handedOn, lines } = open();
    for (const line of ['1\n', '2\n']) lines.write(line);
    lines.flush();
    lines.write('3\n');
    expect(handedOn).toEqual(['1\n', '2\n', '3\n']);
    await setImmediate();
    expect(handedOn).toHaveLength(3);
  });
});
