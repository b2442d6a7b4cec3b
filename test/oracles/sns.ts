import './installed.ts';
import { createRequire } from 'node:module';

interface MessageValidator {
  validate(message: object, done: (error: Error | null) => void): void;
}

export const SnsValidator = createRequire(import.meta.url)('sns-validator') as new () => MessageValidator;
