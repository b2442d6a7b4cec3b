/** Why a step cannot be tried as things are, or what it did cannot be kept. The message may hold its secrets. */
export class StepFailure extends Error {
  /** snake_case, for machines. */
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, retryable = false) {
    super(message);
    this.name = 'StepFailure';
    this.code = code;
    this.retryable = retryable;
  }
}
