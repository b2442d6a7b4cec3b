import { createPrivateKey } from 'node:crypto';
import { option, secret } from '../../config/setting-row.ts';

export const evidenceSettings = {
  evidenceKey: option(secret().optional(), {
    variable: 'SLUICE_EVIDENCE_KEY',
    contents: 'secret',
    replicas: 'same',
    accepts: 'an Ed25519 private key as PEM, env:NAME or file:PATH',
    meaning: 'Signs the evidence file of a delivery.',
    problem: (pem) =>
      isEd25519(pem) ? undefined : 'is not an Ed25519 private key as PEM; openssl genpkey -algorithm ed25519 makes one',
  }),
};

function isEd25519(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'ed25519';
  } catch {
    return false;
  }
}
