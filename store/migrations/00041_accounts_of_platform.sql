-- +goose Up
-- The queue of each platform. Its name is what precedes the first slash: the longest beginning of characters that names consist of.
CREATE INDEX accounts_of_platform ON accounts ((substr(id, 1, length(id) - length(ltrim(id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-')))), due, id) WHERE due > 0;

-- +goose Down
DROP INDEX accounts_of_platform;
