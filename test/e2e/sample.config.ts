import { createPublicKey, verify } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { defineConfig, defineHandler, type GatePlugin, type SignatureVerifier, z } from '@sluicehq/sluice';

/** A config module as operators write it; the tests copy it into a folder outside the checkout. */
const ed25519: SignatureVerifier = {
  name: 'Acme Ed25519',
  async verify({ delivery, keys, signal }) {
    await turn(undefined, { signal });
    const signature = Buffer.from(delivery.headers['x-acme-signature'] ?? '', 'base64');
    const asKey = (text: string) => createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });
    if (keys.current !== undefined && verify(null, delivery.body, asKey(keys.current), signature)) {
      return { outcome: 'verified' };
    }
    if (keys.previous !== undefined && verify(null, delivery.body, asKey(keys.previous), signature)) {
      return { outcome: 'verifiedWithPreviousKey' };
    }
    return { outcome: 'refused', reason: 'not signed by Acme' };
  },
};

/** Needs no key in the manifest: it has its own. */
const tokenInQuery: SignatureVerifier = {
  name: 'InQuery',
  verify({ delivery }) {
    const token = new URL(delivery.path, 'http://localhost').searchParams.get('token');
    return token === 'let-me-in' ? { outcome: 'verified' } : { outcome: 'refused', reason: 'no such token' };
  },
};

const broken: SignatureVerifier = {
  name: 'Broken',
  verify() {
    throw new TypeError('the key service said: secret-of-the-key-service');
  },
};

const tenant: GatePlugin<unknown> = {
  name: 'tenant',
  prepare: ({ inputs }) =>
    inputs.webhookSlug !== 'tenant'
      ? undefined
      : {
          name: 'tenant',
          check: ({ headers }) =>
            headers['x-tenant'] === 'ours'
              ? { passed: true }
              : { passed: false, reason: 'ip_not_allowed', detail: 'another tenant' },
        },
};

export default defineConfig({
  enforcementMode: 'Enforce',
  handlers: [
    defineHandler({
      type: 'Greet',
      inputs: z.object({ name: z.string() }),
      run: ({ inputs, attempt }) => ({ kind: 'succeeded', output: `hello ${inputs.name}, attempt ${attempt}` }),
    }),
  ],
  verifiers: [ed25519, tokenInQuery, broken],
  signatureSpecs: [
    // GitHub behind a gateway that renames its header.
    {
      name: 'GitHub',
      headerName: 'X-Forwarded-Signature',
      algorithm: 'Sha256',
      encoding: 'HexLower',
      prefix: 'sha256=',
      signedPayloadStrategy: 'RawBody',
    },
    {
      name: 'Acme',
      headerName: 'X-Acme',
      algorithm: 'sha512',
      encoding: 'base64Url',
      signedPayloadStrategy: 'RawBody',
    },
  ],
  payloadStrategies: {
    methodAndBody: ({ delivery }) => Buffer.concat([Buffer.from(`${delivery.method} `), delivery.body]),
  },
  gates: [tenant],
});
