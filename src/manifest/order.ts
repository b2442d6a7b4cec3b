import { ExpressionError } from '../expressions/compile.ts';
import { secretHeader } from '../expressions/delivery-expressions.ts';
import { compileOrderKey } from '../expressions/order-key.ts';
import { errorAt, type Problem } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';

/** Checks the fields that order the runs of a flow. */
export function checkOrder({
  serialize,
  serializeOnFailure,
}: {
  readonly serialize?: string | undefined;
  readonly serializeOnFailure?: string | undefined;
}): Problem[] {
  if (serialize !== undefined) {
    const mistake = mistakeIn(serialize);
    return mistake === undefined ? [] : [errorAt(['serialize'], mistake)];
  }
  if (serializeOnFailure === undefined) return [];
  return [errorAt(['serializeOnFailure'], 'has no meaning without `serialize`, which gives runs their keys')];
}

function mistakeIn(source: string): string | undefined {
  try {
    const { references } = compileOrderKey(source);
    const secret = references
      .filter(({ path }) => path[1] === 'headers')
      .map(({ path }) => path[2])
      .find((name) => typeof name === 'string' && CREDENTIAL_NAME.test(name));
    return secret === undefined ? undefined : secretHeader(String(secret), 'keys of orders are stored');
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}
