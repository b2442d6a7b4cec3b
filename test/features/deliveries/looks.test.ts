import { describe, expect, it } from 'vitest';
import { deliveryLook } from '../../../src/features/deliveries/page/words.ts';

describe('a delivery', () => {
  const accepted: Parameters<typeof deliveryLook>[0] = {
    rejected: false,
    statusCode: 200,
    reason: null,
    outcome: null,
    held: false,
  };
  it.each([
    ['passed every gate', accepted, 'Accepted'],
    ['waits for its flow', { ...accepted, held: true }, 'Held'],
    ['was refused', { ...accepted, rejected: true, statusCode: 401, reason: 'signature_mismatch' }, 'Refused'],
    ['was refused without a known reason', { ...accepted, rejected: true, statusCode: 503 }, 'Refused'],
    ['failed a gate in Audit', { ...accepted, rejected: true, reason: 'signature_mismatch' }, 'Let in'],
    ['failed a gate in Off', { ...accepted, rejected: true, reason: 'ip_denied' }, 'Let in'],
    ['was sent a second time', { ...accepted, outcome: 'duplicate', reason: 'nonce_replayed' }, 'Duplicate'],
    ['tells of an event a second time', { ...accepted, outcome: 'duplicate' }, 'Duplicate'],
    ['is filtered', { ...accepted, outcome: 'filtered' }, 'Filtered'],
    ['could not be evaluated', { ...accepted, outcome: 'unevaluated' }, 'Accepted'],
    [
      'was sent a second time and refused',
      { ...accepted, rejected: true, statusCode: 409, reason: 'nonce_replayed' },
      'Refused',
    ],
    ['was sent a second time in Audit', { ...accepted, rejected: true, reason: 'nonce_replayed' }, 'Let in'],
  ] as [string, Parameters<typeof deliveryLook>[0], string][])('that %s says so', (_, delivery, text) => {
    expect(deliveryLook(delivery).text).toBe(text);
  });

  it('says what its reason means on hovering', () => {
    const { title } = deliveryLook({ ...accepted, rejected: true, statusCode: 403, reason: 'ip_denied' });
    expect(title).toBe('The client’s address is on the deny list.');
  });
});
