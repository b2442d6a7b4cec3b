import { ExpressionError } from '../../expressions/compile.ts';
import { secretHeader } from '../../expressions/delivery-expressions.ts';
import { compileOrderKey } from '../../expressions/order-key.ts';
import { CREDENTIAL_NAME } from '../../manifest/mask.ts';

/** Why an expression cannot give runs their keys; undefined if it can. */
export function mistakeInKey(source: string): string | undefined {
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
