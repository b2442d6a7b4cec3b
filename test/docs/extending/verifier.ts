import { createHmac, timingSafeEqual } from 'node:crypto';
import { defineConfig, type SignatureVerifier } from '@sluicehq/sluice';

const acme: SignatureVerifier = {
  name: 'Acme',
  headers: ['x-acme-signature', 'x-acme-time'],
  verify({ delivery, keys }) {
    const time = delivery.headers['x-acme-time'] ?? '';
    const given = Buffer.from(delivery.headers['x-acme-signature'] ?? '', 'base64');
    const signedBytes = Buffer.concat([Buffer.from(`${delivery.method} ${delivery.path} ${time} `), delivery.body]);
    const matches = (key: string | undefined) => {
      if (key === undefined) return false;
      const right = createHmac('sha256', key).update(signedBytes).digest();
      return given.length === right.length && timingSafeEqual(given, right);
    };
    const parts = { signedTimestampMs: Number(time) * 1000, signedBytes };
    if (matches(keys.current)) return { outcome: 'verified', ...parts };
    if (matches(keys.previous)) return { outcome: 'verifiedWithPreviousKey', ...parts };
    return { outcome: 'refused', reason: 'not signed by Acme' };
  },
};

export default defineConfig({ verifiers: [acme] });
