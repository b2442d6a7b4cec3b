import type { Handshake } from '../handshake.ts';
import type { PublisherSpec } from '../spec.ts';
import type { StandardPublisher } from '../standards/standard.ts';
import { ROWS_A_TO_B } from './a-b.ts';
import { ROWS_A_TO_C } from './a-c.ts';
import { AMAZON_SNS } from './amazon-sns.ts';
import { ANY_SENDER_FORMS, PERMISSION_FORMS } from './any-sender.ts';
import { STANDARD_ROWS } from './by-standard.ts';
import { ROWS_C } from './c.ts';
import { ROWS_C_TO_S } from './c-s.ts';
import { ROWS_D_TO_G } from './d-g.ts';
import { ROWS_D_TO_L } from './d-l.ts';
import { ROWS_H_TO_L } from './h-l.ts';
import { handshakeOf } from './handshake-form.ts';
import { ROWS_M_TO_N } from './m-n.ts';
import { ROWS_M_TO_S } from './m-s.ts';
import { ROWS_O_TO_R } from './o-r.ts';
import { type PublisherRow, publisherSpec, standardPublisher } from './row.ts';
import { ROWS_S } from './s.ts';
import { ROWS_T_TO_X } from './t-x.ts';
import { ROWS_T_TO_Z } from './t-z.ts';

/** Every publisher that the service knows, by the name of its scheme. */
export const PUBLISHERS: readonly PublisherRow[] = [
  ...ROWS_A_TO_B,
  ...ROWS_A_TO_C,
  ...ROWS_C,
  ...ROWS_C_TO_S,
  ...ROWS_D_TO_G,
  ...ROWS_H_TO_L,
  AMAZON_SNS,
  ...ROWS_D_TO_L,
  ...ROWS_M_TO_N,
  ...ROWS_M_TO_S,
  ...ROWS_O_TO_R,
  ...ROWS_S,
  ...ROWS_T_TO_X,
  ...ROWS_T_TO_Z,
].sort((one, other) => one.name.localeCompare(other.name, 'en'));

/** The built-in schemes, without `Custom`, which the fields of a trigger describe. */
export const BUILT_IN_SCHEMES: readonly PublisherSpec[] = PUBLISHERS.map(publisherSpec);

/** Publishers that sign by a standard: the fields of a trigger complete their schemes. */
export const STANDARD_PUBLISHERS: readonly StandardPublisher[] = STANDARD_ROWS.map(standardPublisher);

const shaken = (forms: typeof ANY_SENDER_FORMS) => forms.map((form) => handshakeOf(form, undefined));

export const ANY_SENDER_HANDSHAKES: readonly Handshake[] = shaken(ANY_SENDER_FORMS);
export const PERMISSION_HANDSHAKES: readonly Handshake[] = shaken(PERMISSION_FORMS);
