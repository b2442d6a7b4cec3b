import type { WebhookInputs } from '../gate.ts';
import { customHeader } from './custom.ts';
import type { SignatureSpec } from './spec.ts';

/** Schemes in which the key itself is sent: nothing of the delivery is signed. */
export const TOKEN_SCHEMES = ['Token', 'Basic'] as const;
export type TokenScheme = (typeof TOKEN_SCHEMES)[number];

const AUTHORIZATION = 'Authorization';

/** What the sender of a token that has no publisher of its own here puts where. */
export function tokenSpec(name: TokenScheme, inputs: WebhookInputs): SignatureSpec {
  return name === 'Basic' ? BASIC : { ...BEARER, ...placeOf(inputs) };
}

/** A header that the trigger names holds the token alone, unless the trigger says what is in front of it. */
function placeOf({ webhookSignatureHeader: header, webhookHeaderValuePrefix }: WebhookInputs): Partial<SignatureSpec> {
  const headers = [
    { signature: header === undefined ? AUTHORIZATION : customHeader('webhookSignatureHeader', header) },
  ];
  return { headers, headerValuePrefix: webhookHeaderValuePrefix ?? (header === undefined ? 'Bearer ' : undefined) };
}

const BEARER: SignatureSpec = {
  name: 'Token',
  keyIsChosen: true,
  headers: [{ signature: AUTHORIZATION }],
  headerValuePrefix: 'Bearer ',
  algorithm: 'token',
  encoding: 'hexLower',
  signs: [],
  source: 'RFC 6750, section 2.1',
};

const BASIC: SignatureSpec = {
  ...BEARER,
  name: 'Basic',
  headerValuePrefix: 'Basic ',
  isUserAndPassword: true,
  source: 'RFC 7617',
};
