import { describe, expect, it } from 'vitest';
import { eventLook } from '../../../src/features/runs/page/looks.ts';

describe('an event', () => {
  it.each([
    ['step.started', 'Attempt 1', 'started', null],
    ['step.started', 'Attempt 2', 'started', 'Attempt 2'],
    ['step.failed', 'Attempt 1: no', 'failed', 'no'],
    ['step.failed', 'Attempt 12: no', 'failed', 'Attempt 12: no'],
    ['something.new', 'x', 'something.new', 'x'],
    ['constructor', 'x', 'constructor', 'x'],
  ])('%s, %s, is told as %s', (type, message, text, detail) => {
    expect(eventLook({ type, message })).toMatchObject({ text, detail });
  });
});
