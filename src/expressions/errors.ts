import { formatPath, type JsonPath } from './json-path.ts';

const SHOWN_CHARACTERS = 120;

export interface ExpressionProblem {
  readonly expression: string;
  readonly reason: string;
  /** Offset in the expression, from 0. */
  readonly position?: number | undefined;
  /** Where the expression stands inside the templated value. */
  readonly path?: JsonPath | undefined;
}

/** An expression that cannot be compiled or evaluated. The message holds the expression's text and no value it read. */
export class ExpressionError extends Error {
  readonly problem: ExpressionProblem;

  constructor(problem: ExpressionProblem) {
    super(describe(problem));
    this.name = 'ExpressionError';
    this.problem = problem;
  }

  /** The same error, with the place of the expression inside a templated value. */
  at(path: JsonPath): ExpressionError {
    return new ExpressionError({ ...this.problem, path });
  }

  /** The message without the path, for whoever reports the path itself. */
  get messageWithoutPath(): string {
    return describe({ ...this.problem, path: undefined });
  }
}

/** Every expression of a template that does not compile. */
export class TemplateError extends Error {
  readonly errors: readonly ExpressionError[];

  constructor(errors: readonly ExpressionError[]) {
    super(errors.map((error) => error.message).join('; '));
    this.name = 'TemplateError';
    this.errors = errors;
  }
}

function describe({ expression, reason, position, path }: ExpressionProblem): string {
  const shown = expression.length > SHOWN_CHARACTERS ? `${expression.slice(0, SHOWN_CHARACTERS)}…` : expression;
  const place = path === undefined || path.length === 0 ? '' : `${formatPath(path)}: `;
  const character = position === undefined ? '' : ` (at character ${position + 1})`;
  return `${place}expression "${shown}": ${reason}${character}`;
}
