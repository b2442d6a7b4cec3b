import { describe, expect, it } from 'vitest';
import { findRefusalsBegan } from '../../../src/features/rhythm/refusals.ts';

const HOUR = 3_600_000;
const NOW = 500_000 * HOUR + 1;
const accepted = (hoursAgo: number, count = 5) => ({ hour: 500_000 - hoursAgo, reason: null, count });
const refused = (hoursAgo: number, count = 1, reason = 'signature_mismatch') => ({
  hour: 500_000 - hoursAgo,
  reason,
  count,
});
const calm = [30, 60, 90, 120].map((hoursAgo) => accepted(hoursAgo));

describe('refusals', () => {
  it('begin with the third one of a trigger that had none for a week', () => {
    expect(findRefusalsBegan([...calm, refused(2), refused(1)], NOW)).toBeUndefined();
    expect(findRefusalsBegan([...calm, refused(2), refused(1), refused(0)], NOW)).toEqual({
      since: 499_998 * HOUR,
      count: 3,
      reason: 'signature_mismatch',
    });
  });

  it.each([
    ['there were some within a week before', [...calm, refused(100), refused(1, 3)]],
    ['too little came before', [accepted(30), accepted(60), refused(1, 3)]],
    ['they began more than a day ago', [...calm, refused(25), refused(1, 3)]],
    ['a later hour was accepted whole', [...calm, refused(4, 3), accepted(2)]],
    ['the attention list has an item of its own', [...calm, refused(1, 9, 'flow_disabled')]],
  ])('are no news where %s', (_, hours) => {
    expect(findRefusalsBegan(hours, NOW)).toBeUndefined();
  });

  it('are named by their most frequent reason', () => {
    const hours = [...calm, refused(1, 1, 'rate_limited'), refused(1, 2), refused(0, 1, 'body_schema')];
    expect(findRefusalsBegan(hours, NOW)).toMatchObject({ count: 4, reason: 'signature_mismatch' });
  });
});
